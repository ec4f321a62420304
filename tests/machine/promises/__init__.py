"""What the documents promise of each verb, once more, in plain Python over the rows of a `State`.

Each promise changes the state that it is given into the one that has to be there afterwards, and answers what the verb
has to answer. Written from docs/lifecycle.md and the two guarantees, and not from the verbs.
"""
