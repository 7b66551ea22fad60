"""Write logs as a broker does: validate, assign offsets, index, roll, keep the state of producers and leader epochs.

    log_dir         LogDirWriter: a new log directory with its partitions; checkpoints, mark of a clean shutdown
    log_writer      LogWriter: one log; append as leader or follower, markers, roll, epochs, log start, high watermark
    sessions        Producer: an idempotent or transactional producer over several logs
    record_source   Message and RecordSource: what is appended, as values or as columns
    packing         Packing: how records become batches; pack() makes them
    dumped_batch    batches made again from what a dump says of them
    errors          what a broker refuses, one exception for each of Kafka's

A topic's settings are kdump.settings.writing.WritingSettings; kdump.operations opens logs that are there.
"""
