import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What a running broker says of everything that it holds. */
public final class Truth {
    private final Admin admin;
    private static final Set<TransactionState> PREPARED =
        Set.of(TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT);

    private final String servers;
    private final ObjectNode said = Kit.JSON.createObjectNode();
    private final List<TopicPartition> partitions = new ArrayList<>();

    private Truth(String servers, Admin admin) {
        this.servers = servers;
        this.admin = admin;
    }

    /**
     * As JSON; with a path, all records are written there too, one a line, with the reads of both isolation levels.
     * Of a server that only answers what readers ask (readable), share and streams groups and access are left out.
     */
    static ObjectNode of(String servers, String records, boolean readable) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            Truth truth = new Truth(servers, admin);
            truth.said.put("cluster", admin.describeCluster().clusterId().get());
            if (!readable) {
                truth.settle();
            }
            truth.groups();
            if (!readable) {
                truth.newerGroups();
            }
            truth.topics();
            truth.offsets();
            truth.transactions();
            if (!readable) {
                truth.access();
            }
            if (records != null) {
                truth.records(Path.of(records));
            }
            return truth.said;
        }
    }

    private void topics() throws Exception {
        Collection<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        ObjectNode topics = said.putObject("topics");
        Map<String, TopicDescription> described = new TreeMap<>(admin.describeTopics(names).allTopicNames().get());
        List<ConfigResource> resources = new ArrayList<>();
        for (TopicDescription topic : described.values()) {
            ObjectNode one = topics.putObject(topic.name());
            one.put("id", topic.topicId().toString()).put("internal", topic.isInternal());
            one.putObject("configs");
            ObjectNode all = one.putObject("partitions");
            topic.partitions().forEach(partition -> {
                partitions.add(new TopicPartition(topic.name(), partition.partition()));
                ObjectNode replicas = all.putObject(String.valueOf(partition.partition()));
                replicas.put("leader", partition.leader() == null ? null : partition.leader().id());
                partition.replicas().forEach(node -> replicas.withArray("replicas").add(node.id()));
                partition.isr().forEach(node -> replicas.withArray("isr").add(node.id()));
            });
            resources.add(new ConfigResource(ConfigResource.Type.TOPIC, topic.name()));
        }
        admin.describeConfigs(resources).all().get().forEach((resource, config) -> {
            for (ConfigEntry entry : config.entries()) {
                if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) {
                    topics.withObject("/" + resource.name().replace("~", "~0")).withObject("/configs")
                        .put(entry.name(), entry.value());
                }
            }
        });
        ObjectNode directories = said.putObject("directories");
        for (int broker : List.of(1)) {
            admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).forEach((path, directory) ->
                directory.replicaInfos().forEach((partition, info) -> directories.putObject(partition.toString())
                    .put("path", path).put("size", info.size()).put("future", info.isFuture())));
        }
    }

    private Map<TopicPartition, ListOffsetsResultInfo> list(OffsetSpec spec, IsolationLevel level) throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        partitions.forEach(partition -> wanted.put(partition, spec));
        return admin.listOffsets(wanted, new ListOffsetsOptions(level)).all().get();
    }

    private void offsets() throws Exception {
        ObjectNode offsets = said.putObject("offsets");
        partitions.forEach(partition -> offsets.putObject(partition.toString()));
        list(OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED).forEach((partition, info) ->
            offsets.withObject("/" + partition).put("earliest", info.offset()));
        list(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED).forEach((partition, info) ->
            offsets.withObject("/" + partition).put("latest", info.offset()));
        list(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED).forEach((partition, info) ->
            offsets.withObject("/" + partition).put("lastStable", info.offset()));
        Map<TopicPartition, ListOffsetsResultInfo> last =
            list(OffsetSpec.maxTimestamp(), IsolationLevel.READ_UNCOMMITTED);
        last.forEach((partition, info) ->
            offsets.withObject("/" + partition).putArray("max").add(info.offset()).add(info.timestamp()));
        // Times before the first, after the last, and between: spread over what the cluster holds.
        long newest = last.values().stream().mapToLong(ListOffsetsResultInfo::timestamp).max().orElse(0);
        TreeSet<Long> times = new TreeSet<>(List.of(0L, newest + 1, newest));
        last.values().forEach(info -> times.add(info.timestamp()));
        for (long back = 1; back < 4_000_000; back = back * 5 / 4 + 1) {
            times.add(newest - back);
        }
        times.removeIf(time -> time < 0);
        for (long time : times) {
            list(OffsetSpec.forTimestamp(time), IsolationLevel.READ_UNCOMMITTED).forEach((partition, info) ->
                offsets.withObject("/" + partition).withArray("times")
                    .addArray().add(time).add(info.offset()).add(info.timestamp()));
        }
    }

    /** A coordinator that is still loading has no groups: they are asked for until two answers are the same. */
    private Map<String, ConsumerGroupListing> listed() throws Exception {
        Map<String, ConsumerGroupListing> before = Map.of();
        for (int tries = 0; ; tries++) {
            Map<String, ConsumerGroupListing> now = new TreeMap<>();
            admin.listConsumerGroups().all().get().forEach(group -> now.put(group.groupId(), group));
            if (tries == 40 || !now.isEmpty() && now.keySet().equals(before.keySet())) {
                return now;
            }
            before = now;
            Thread.sleep(500);
        }
    }

    private void groups() throws Exception {
        ObjectNode groups = said.putObject("groups");
        Map<String, ConsumerGroupListing> listed = listed();
        Map<String, ConsumerGroupDescription> described = admin.describeConsumerGroups(listed.keySet()).all().get();
        for (String name : listed.keySet()) {
            ObjectNode group = groups.putObject(name);
            ConsumerGroupDescription description = described.get(name);
            group.put("type", description.type().toString().toLowerCase(java.util.Locale.ROOT));
            group.put("state", description.state().toString());
            group.put("assignor", description.partitionAssignor());
            ObjectNode members = group.putObject("members");
            for (MemberDescription member : description.members()) {
                ObjectNode one = members.putObject(member.consumerId());
                one.put("client", member.clientId()).put("host", member.host());
                one.put("instance", member.groupInstanceId().orElse(null));
                TreeSet<String> assigned = new TreeSet<>();
                member.assignment().topicPartitions().forEach(partition -> assigned.add(partition.toString()));
                assigned.forEach(one.putArray("assignment")::add);
            }
            ObjectNode commits = group.putObject("commits");
            Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get();
            offsets.forEach((partition, offset) -> {
                if (offset != null) {
                    commits.putArray(partition.toString()).add(offset.offset()).add(offset.metadata())
                        .add(offset.leaderEpoch().orElse(null));
                }
            });
        }
    }

    private void newerGroups() throws Exception {
        for (String more : Kit.NEWER) {
            try {
                Class.forName(more).getMethod("truth", Admin.class, ObjectNode.class).invoke(null, admin, said);
            } catch (ClassNotFoundException | NoSuchMethodException older) {
                // This release's clients do not have it.
            }
        }
    }

    /** Wait until a coordinator that has just started has ended what it found prepared: its markers are in the logs. */
    private void settle() throws Exception {
        long limit = System.currentTimeMillis() + 60_000;
        while (admin.listTransactions().all().get().stream().anyMatch(listing -> PREPARED.contains(listing.state()))) {
            if (System.currentTimeMillis() > limit) {
                throw new IllegalStateException("prepared transactions have not ended within a minute");
            }
            Thread.sleep(50);
        }
    }

    private void transactions() throws Exception {
        ObjectNode transactions = said.putObject("transactions");
        List<String> ids = new ArrayList<>();
        admin.listTransactions().all().get().forEach(listing -> ids.add(listing.transactionalId()));
        admin.describeTransactions(ids).all().get().forEach((id, description) -> {
            ObjectNode one = transactions.putObject(id);
            one.put("state", description.state().toString()).put("producerId", description.producerId());
            one.put("epoch", description.producerEpoch()).put("timeout", description.transactionTimeoutMs());
            TreeSet<String> names = new TreeSet<>();
            description.topicPartitions().forEach(partition -> names.add(partition.toString()));
            names.forEach(one.putArray("partitions")::add);
        });
        ObjectNode producers = said.putObject("producers");
        admin.describeProducers(partitions).all().get().forEach((partition, states) -> {
            ArrayNode all = producers.putArray(partition.toString());
            states.activeProducers().forEach(state -> all.addObject().put("producerId", state.producerId())
                .put("epoch", state.producerEpoch()).put("lastSequence", state.lastSequence())
                .put("lastTimestamp", state.lastTimestamp())
                .put("openSince", state.currentTransactionStartOffset().isPresent()
                    ? state.currentTransactionStartOffset().getAsLong() : null));
        });
    }

    private void access() throws Exception {
        TreeSet<String> acls = new TreeSet<>();
        admin.describeAcls(AclBindingFilter.ANY).values().get().forEach(acl -> acls.add(String.join(" ",
            acl.pattern().resourceType().toString(), acl.pattern().name(), acl.pattern().patternType().toString(),
            acl.entry().principal(), acl.entry().host(), acl.entry().operation().toString(),
            acl.entry().permissionType().toString())));
        acls.forEach(said.putArray("acls")::add);
        ArrayNode quotas = said.putArray("quotas");
        admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().forEach((entity, values) ->
            values.forEach((key, value) -> {
                ObjectNode one = quotas.addObject().put("key", key).put("value", value);
                ObjectNode names = one.putObject("entity");
                entity.entries().forEach(names::put);
            }));
        ObjectNode users = said.putObject("scram");
        admin.describeUserScramCredentials().all().get().forEach((name, user) -> user.credentialInfos().forEach(info ->
            users.withArray("/" + name).add(info.mechanism().mechanismName() + " " + info.iterations())));
        ObjectNode features = said.putObject("features");
        admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach((name, range) ->
            features.put(name, range.maxVersionLevel()));
    }

    private void records(Path path) throws Exception {
        Map<TopicPartition, TreeSet<Long>> committed = new HashMap<>();
        read("read_committed", item -> committed
            .computeIfAbsent(new TopicPartition(item.topic(), item.partition()), none -> new TreeSet<>())
            .add(item.offset()));
        try (BufferedWriter file = Files.newBufferedWriter(path)) {
            read("read_uncommitted", item -> {
                TopicPartition partition = new TopicPartition(item.topic(), item.partition());
                ObjectNode row = Kit.JSON.createObjectNode();
                row.put("partition", partition.toString()).put("offset", item.offset());
                row.put("timestamp", item.timestamp()).put("timestampType", item.timestampType().toString());
                row.put("leaderEpoch", item.leaderEpoch().orElse(null));
                row.put("key", text(item.key())).put("value", text(item.value()));
                ArrayNode headers = row.putArray("headers");
                for (Header header : item.headers()) {
                    headers.addArray().add(header.key()).add(text(header.value()));
                }
                row.put("committed", committed.getOrDefault(partition, new TreeSet<>()).contains(item.offset()));
                file.write(row.toString());
                file.newLine();
            });
        }
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private interface Taker {
        void take(ConsumerRecord<byte[], byte[]> item) throws Exception;
    }

    private void read(String isolation, Taker taker) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("isolation.level", isolation);
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "10000");
        properties.put("fetch.max.wait.ms", "50");
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            List<TopicPartition> rest = new ArrayList<>(partitions);
            long limit = System.currentTimeMillis() + 300_000;
            while (true) {
                boolean changed = rest.removeIf(partition -> consumer.position(partition) >= ends.get(partition));
                if (rest.isEmpty()) {
                    return;
                }
                if (changed) {
                    consumer.assign(rest); // not each time: what has been fetched already would be thrown away
                }
                if (System.currentTimeMillis() > limit) {
                    throw new IllegalStateException("not read to their ends within five minutes: " + rest);
                }
                for (ConsumerRecord<byte[], byte[]> item : consumer.poll(Duration.ofMillis(200))) {
                    taker.take(item);
                }
            }
        }
    }
}
