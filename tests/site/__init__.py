"""The documentation as a site: its code does what its pages say."""
