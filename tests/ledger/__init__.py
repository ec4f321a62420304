"""A host app of the test suite: something that handlers can write to, to see how often they really ran."""
