"""The records of Kafka's internal topics: what brokers and controllers keep in their own logs.

`description` holds the description language and `tables` messages written in it; `reader`, `writer` and `json_form` are
its interpreter. `framing` has the two ways in which records are wrapped, one module each topic its tables; `dump_text`
gives the text that kafka-dump-log of Kafka 4.0 prints for them. A topic's tables are loaded when its module is
imported, so import only the one at hand.
"""
