"""Short random episodes: one Redis, one or two supervisors, five queues, and faults that a seed draws. docs/reliability.md, "Episodes".

    faults.py    the table of faults, and how each happens
    load.py      the queues, the kinds of messages, and the producer
    handler.c    the handler of all queues; it notes each run. Its frame is harness/regime_handler.c
    episode.py   one episode: disturb, settle, look
    judge.py     what is wrong with what was seen: pure, and tested with results that are wrong (tests/regimes/test_episodes_judge.py)
    run          many episodes, several at a time
"""
