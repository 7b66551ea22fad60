"""The copies of a partition on several brokers: where they differ, who may lead, and what each choice loses."""
