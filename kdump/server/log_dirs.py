"""Answer about the log directories of a node."""

from __future__ import annotations

import os
from contextlib import suppress

from kdump.server.context import Context, Fields
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import Request


def describe_log_dirs(ctx: Context, request: Request) -> Fields:
    """Answer DescribeLogDirs: the node's directories, with the sizes of the logs asked for (null: of all)."""
    wanted = request.body["topics"]
    asked = None if wanted is None else {(each["topic"], number) for each in wanted for number in each["partitions"]}
    results = []
    for directory in ctx.cluster.nodes[ctx.node_id].directories:
        path = os.path.abspath(directory.path)
        topics: list[Fields] = []
        for topic in ctx.cluster.topics.values():
            partitions = []
            for place in topic.places:
                is_here = os.path.dirname(place.paths.get(ctx.node_id, "")) == path
                if is_here and (asked is None or (topic.name, place.number) in asked):
                    size = _size(ctx, topic.name, place.number)
                    partitions.append({"partitionIndex": place.number, "partitionSize": size})
            if partitions:
                topics.append({"name": topic.name, "partitions": partitions})
        result: Fields = {"errorCode": ErrorCode.NONE, "logDir": path, "topics": topics}
        if request.version >= 4:
            result |= _space(path)
        results.append(result)
    return {"results": results}


def _size(ctx: Context, topic: str, number: int) -> int:
    with suppress(OSError):
        served = ctx.cluster.partition(ctx.node_id, topic, number)
        return served.size if served else 0
    return 0


def _space(path: str) -> Fields:
    with suppress(OSError):
        disk = os.statvfs(path)
        return {"totalBytes": disk.f_blocks * disk.f_frsize, "usableBytes": disk.f_bavail * disk.f_frsize}
    return {}
