"""A partition.metadata that is missing, cannot be read or has another topic's id: what to write, or what to ask."""

from __future__ import annotations

import os
from shlex import quote

from kdump.change.plan import REPLACE, Operation, Plan
from kdump.disk.reading import status_of
from kdump.errors import CheckpointError, RefusedError
from kdump.formats import names
from kdump.formats.metadata_files import PartitionMetadata, format_partition_metadata
from kdump.formats.uuids import format_uuid
from kdump.mend.task import Task
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import NewContent
from kdump.topics.topic_ids import KnownTopicId, TopicIds


def with_partition_metadata(task: Task, log: PartitionLog, ids: TopicIds, topic_id: bytes | None = None) -> Task:
    """Return a task with what restores the partition's topic id, or with the question that nothing here answers.

    `topic_id` is the one that an operator names. Raises OSError, RefusedError where the cluster has another one.
    """
    name = names.PARTITION_METADATA
    if log.name is None or log.name.topic == names.CLUSTER_METADATA_TOPIC or log.name.state not in ("", names.FUTURE):
        return task
    own, fault = _own(log, ids)
    known = ids.of(log)
    if topic_id is not None:
        if known is not None and known.is_clusters and known.topic_id != topic_id:
            text = f"{known.source} have {format_uuid(known.topic_id)} for {log.name.topic}"
            raise RefusedError(f"{log.path}: not written: topic id {format_uuid(topic_id)}: {text}")
        known = KnownTopicId(topic_id, "the command line")
    if known is None or known.topic_id == own:
        is_asked = fault and (name in log.files or ids.partitions(log))
        return _asking(task, f"{log.path}/{name}: {fault}, and no topic id is certain", log) if is_asked else task
    if own is not None and topic_id is None and not known.is_damaged_in(own):
        text = f"{log.path}/{name}: the topic id is {format_uuid(own)}, of {known.source} {format_uuid(known.topic_id)}"
        return _asking(task, f"{text}. If its records are of that topic", log, known)
    return _writing(task, log, known, fault or f"it had {format_uuid(own or b'')}")


def _own(log: PartitionLog, ids: TopicIds) -> tuple[bytes | None, str]:
    """Return the topic id in the partition's file, and what is wrong with that file ("": nothing). Raises OSError."""
    topic_id = ids.partitions(log).get(log.path)
    if topic_id is not None:
        return topic_id, ""
    try:
        metadata = log.metadata
    except CheckpointError as error:
        return None, str(error)
    return (None, "the file is missing") if metadata is None else (metadata.topic_id, "")


def _asking(task: Task, text: str, log: PartitionLog, known: KnownTopicId | None = None) -> Task:
    if known is None:
        topic = log.name.topic if log.name else ""
        question = f"{text}: name it with --topic-id (kafka-topics.sh --describe --topic {topic} shows it as TopicId)"
    else:
        question = f"{text}: kdump repair {quote(log.path)} --topic-id {format_uuid(known.topic_id)} --apply"
    plan = None if task.plan is None else _without_file(task.plan)
    return task._replace(plan=plan, problems=(*task.problems, question))


def _writing(task: Task, log: PartitionLog, known: KnownTopicId, why: str) -> Task:
    name = names.PARTITION_METADATA
    content = format_partition_metadata(PartitionMetadata(0, known.topic_id))
    status = status_of(os.path.join(log.path, name)) if name in log.files else None
    inode, old_size = (status.inode, status.size) if status else (0, -1)
    text = f"{why}: topic_id {format_uuid(known.topic_id)}, from {known.source}"
    operation = Operation(REPLACE, name, len(content), inode, old_size, why=text)
    plan = _without_file(task.plan or Plan(log.path, (), {}))
    recipes = {**plan.recipes, name: NewContent(content, len(content))}
    return task._replace(plan=plan._replace(operations=(*plan.operations, operation), recipes=recipes))


def _without_file(plan: Plan) -> Plan:
    operations = tuple(each for each in plan.operations if each.name != names.PARTITION_METADATA)
    recipes = {name: recipe for name, recipe in plan.recipes.items() if name != names.PARTITION_METADATA}
    return plan._replace(operations=operations, recipes=recipes)
