import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** More of everything, all of it by chance: other topics, settings, producers, records and groups for each seed. */
final class Wild {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final int[] BATCH_SIZES = {1, 200, 16_384, 600_000};
    private static final String METADATA_VERSION = "metadata.version";
    private static final long DAY_MS = 86_400_000;

    private final Make make;
    private final Random random;
    private final Map<String, Integer> topics = new HashMap<>();
    private final Set<String> keyed = new HashSet<>();

    Wild(Make make, long seed) {
        this.make = make;
        this.random = new Random(seed);
    }

    /** Raise all features to what the brokers support, metadata.version first and by chance in several steps. */
    void upgrade() throws Exception {
        var before = make.admin.describeFeatures().featureMetadata().get();
        Map<String, Short> goals = new TreeMap<>();
        before.supportedFeatures().forEach((name, range) -> goals.put(name, range.maxVersion()));
        goals.remove("kraft.version");
        before.finalizedFeatures().forEach((name, range) -> goals.remove(name, range.maxVersionLevel()));
        Short newest = goals.remove(METADATA_VERSION);
        if (newest != null) {
            for (int level = before.finalizedFeatures().get(METADATA_VERSION).maxVersionLevel(); level < newest; ) {
                level = Math.min(level + 1 + random.nextInt(6), newest);
                raise(METADATA_VERSION, (short) level);
            }
        }
        for (Map.Entry<String, Short> goal : goals.entrySet()) {
            raise(goal.getKey(), goal.getValue());
        }
    }

    private void raise(String feature, short level) throws Exception {
        var update = new FeatureUpdate(level, FeatureUpdate.UpgradeType.UPGRADE);
        make.admin.updateFeatures(Map.of(feature, update), new UpdateFeaturesOptions()).all().get();
    }

    void run() throws Exception {
        for (int number = 0; number < 16; number++) {
            topic(number);
        }
        for (int round = 0; round < 24; round++) {
            produce(round);
            Thread.sleep(random.nextInt(150));
        }
        for (int number = 0; number < 60; number++) {
            commits("w-group-" + random.nextInt(25));
        }
        for (int number = 0; number < 4; number++) {
            readAndLeave("w-reader-" + number, number % 2 == 0 ? "classic" : "consumer");
        }
        shorten();
        access();
        settings();
        move();
        unfinished();
        members();
        for (String more : Kit.NEWER) {
            try {
                Class.forName(more).getMethod("wild", Make.class, Random.class).invoke(null, make, random);
            } catch (ClassNotFoundException | NoSuchMethodException older) {
                // This release's clients do not have it.
            }
        }
    }

    private <T> T any(List<T> all) {
        return all.get(random.nextInt(all.size()));
    }

    private void topic(int number) throws Exception {
        List<String> settings = new ArrayList<>(List.of("max.message.bytes", "4000000"));
        String policy = any(List.of("delete", "delete", "compact", "compact,delete"));
        settings.addAll(List.of("cleanup.policy", policy, "segment.ms", String.valueOf(100 + random.nextInt(2500))));
        settings.addAll(List.of("index.interval.bytes", any(List.of("0", "1", "100", "4096", "100000"))));
        settings.addAll(List.of("min.cleanable.dirty.ratio", any(List.of("0.01", "0.5"))));
        settings.addAll(List.of("delete.retention.ms", String.valueOf(random.nextInt(3000))));
        settings.addAll(List.of("retention.ms", "864000000000"));
        if (random.nextInt(3) == 0) {
            settings.addAll(List.of("message.timestamp.type", "LogAppendTime"));
        }
        if (random.nextInt(2) == 0) {
            settings.addAll(List.of("compression.type", any(List.of("producer", "uncompressed", "gzip", "lz4", "zstd"))));
        }
        String name = number % 5 == 4 ? "wild." + number + "_" + "w".repeat(180 + random.nextInt(40)) : "wild-" + number;
        topics.put(name, 1 + random.nextInt(4));
        if (policy.startsWith("compact")) {
            keyed.add(name);
        }
        make.topic(name, topics.get(name), settings.toArray(new String[0]));
    }

    private byte[] bytes(int most) {
        byte[] noise = new byte[random.nextInt(most + 1)];
        if (random.nextInt(3) == 0) {
            java.util.Arrays.fill(noise, (byte) ('a' + random.nextInt(26)));
        } else {
            random.nextBytes(noise);
        }
        return noise;
    }

    private ProducerRecord<byte[], byte[]> record(String topic) {
        byte[] key = keyed.contains(topic) || random.nextInt(3) > 0
            ? (random.nextInt(20) == 0 ? bytes(3000) : ("key " + random.nextInt(40)).getBytes(StandardCharsets.UTF_8)) : null;
        byte[] value = random.nextInt(5) == 0 ? null : bytes(random.nextInt(60) == 0 ? 120_000 : 200);
        long now = System.currentTimeMillis();
        Long time = random.nextInt(4) == 0 ? (Long) (now - (long) (random.nextDouble() * 20 * DAY_MS)) : null;
        var record = new ProducerRecord<>(topic, random.nextInt(topics.get(topic)), time, key, value);
        for (int header = random.nextInt(8) - 3; header > 0; header--) {
            record.headers().add(new RecordHeader("h" + random.nextInt(3), random.nextInt(5) == 0 ? null : bytes(40)));
        }
        return record;
    }

    private void produce(int round) throws Exception {
        int kind = round % 3;
        List<String> settings = new ArrayList<>(List.of("compression.type", CODECS[random.nextInt(CODECS.length)]));
        settings.addAll(List.of("batch.size", String.valueOf(BATCH_SIZES[random.nextInt(BATCH_SIZES.length)])));
        settings.addAll(List.of("linger.ms", any(List.of("0", "5", "30")), "max.request.size", "4000000"));
        settings.addAll(kind == 0 ? List.of("enable.idempotence", "false", "acks", "1") : List.of());
        settings.addAll(kind == 2 ? List.of("transactional.id", "w-" + random.nextInt(6)) : List.of());
        try (KafkaProducer<byte[], byte[]> one = make.producer(settings.toArray(new String[0]))) {
            if (kind < 2) {
                send(one, 20 + random.nextInt(300));
                return;
            }
            one.initTransactions();
            for (int number = 0; number < 1 + random.nextInt(6); number++) {
                one.beginTransaction();
                send(one, random.nextInt(40));
                if (random.nextInt(3) == 0) {
                    var partition = new TopicPartition("plain", random.nextInt(3));
                    one.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(random.nextInt(30))),
                        new ConsumerGroupMetadata("w-txn-" + random.nextInt(4)));
                }
                if (random.nextInt(3) == 0) {
                    one.abortTransaction();
                } else {
                    one.commitTransaction();
                }
            }
        }
    }

    private void send(KafkaProducer<byte[], byte[]> one, int count) {
        List<String> names = new ArrayList<>(new TreeSet<>(topics.keySet()));
        List<String> chosen = List.of(any(names), any(names), any(names));
        for (int number = 0; number < count; number++) {
            one.send(record(any(chosen)));
            if (random.nextInt(40) == 0) {
                one.flush();
            }
        }
        one.flush();
    }

    private void commits(String group) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int number = 0; number <= random.nextInt(5); number++) {
            String metadata = any(List.of("", "by chance", "größer 🐘".repeat(random.nextInt(40)), "\"\\\n\t"));
            offsets.put(new TopicPartition(any(List.of("plain", "txn")), random.nextInt(3)),
                new OffsetAndMetadata(random.nextInt(30), metadata));
        }
        make.admin.alterConsumerGroupOffsets(group, offsets).all().get();
        if (random.nextInt(6) == 0) {
            make.admin.deleteConsumerGroupOffsets(group, Set.of(any(new ArrayList<>(offsets.keySet())))).all().get();
        }
        if (random.nextInt(12) == 0) {
            make.admin.deleteConsumerGroups(List.of(group)).all().get();
        }
    }

    private void readAndLeave(String group, String protocol) {
        try (KafkaConsumer<byte[], byte[]> one = make.consumer(group, "group.protocol", protocol)) {
            one.subscribe(topics.keySet());
            for (int tries = 0; tries < 60 && one.poll(Duration.ofMillis(100)).isEmpty(); tries++) {
            }
            one.commitSync();
        }
    }

    private void shorten() throws Exception {
        Admin admin = make.admin;
        List<String> names = new ArrayList<>(new TreeSet<>(topics.keySet()));
        names.removeAll(keyed);
        for (String name : names) {
            if (random.nextInt(3) == 0) {
                admin.deleteRecords(Map.of(new TopicPartition(name, 0), RecordsToDelete.beforeOffset(-1))).all().get();
            }
        }
        String grown = any(names);
        admin.createPartitions(Map.of(grown, NewPartitions.increaseTo(topics.get(grown) + 2))).all().get();
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, grown);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("min.cleanable.dirty.ratio", ""), AlterConfigOp.OpType.DELETE)))).all().get();
        String gone = any(names);
        if (!gone.equals(grown)) {
            admin.deleteTopics(List.of(gone)).all().get();
        }
    }

    /** Rules, quotas, credentials: made, changed and taken away again. */
    private void access() throws Exception {
        Admin admin = make.admin;
        List<AclBinding> made = new ArrayList<>();
        for (int number = 0; number < 30; number++) {
            ResourceType type = any(List.of(ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID,
                ResourceType.CLUSTER, ResourceType.USER, ResourceType.DELEGATION_TOKEN));
            PatternType pattern = any(List.of(PatternType.LITERAL, PatternType.PREFIXED));
            String name = type == ResourceType.CLUSTER ? "kafka-cluster" : any(List.of("w", "*", "größe", "a b", "plain"));
            made.add(new AclBinding(
                new ResourcePattern(type, name, type == ResourceType.CLUSTER ? PatternType.LITERAL : pattern),
                new AccessControlEntry("User:" + any(List.of("eve", "*", "CN=a,O=b c", "ü")), any(List.of("*", "10.1.2.3")),
                    any(List.of(AclOperation.ALL, AclOperation.DESCRIBE)),
                    any(List.of(AclPermissionType.ALLOW, AclPermissionType.DENY)))));
        }
        made.removeIf(acl -> acl.pattern().resourceType() == ResourceType.CLUSTER && acl.pattern().name().equals("*"));
        admin.createAcls(made).all().get();
        for (AclBinding acl : made) {
            if (random.nextInt(4) == 0) {
                admin.deleteAcls(List.of(acl.toFilter())).all().get();
            }
        }
        for (int number = 0; number < 25; number++) {
            Map<String, String> entity = new HashMap<>();
            boolean ofAddress = random.nextInt(4) == 0;
            for (String type : ofAddress ? List.of("ip") : any(List.of(List.of("user"), List.of("client-id"), List.of("user", "client-id")))) {
                entity.put(type, random.nextInt(4) == 0 ? null : ofAddress ? "10.0.0." + random.nextInt(3) : any(List.of("eve", "a b", "ü")));
            }
            String key = ofAddress ? "connection_creation_rate"
                : any(List.of("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"));
            Double value = random.nextInt(5) == 0 ? null : (Double) (1e9 + random.nextInt(100_000)); // holds nobody up
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity),
                List.of(new ClientQuotaAlteration.Op(key, value))))).all().get();
        }
        for (int number = 0; number < 6; number++) {
            String user = "user " + number;
            var mechanism = any(List.of(ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512));
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user,
                new ScramCredentialInfo(mechanism, 4096 + random.nextInt(1000)), "secret"))).all().get();
            if (random.nextInt(3) == 0) {
                admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(user, mechanism))).all().get();
            }
        }
    }

    /** Settings of topics that already have data, of brokers, groups and clients' metrics. */
    private void settings() throws Exception {
        for (String name : new TreeSet<>(make.admin.listTopics().names().get())) {
            if (topics.containsKey(name) && random.nextInt(2) == 0) {
                String[] chosen = any(List.of(
                    new String[] {"cleanup.policy", "delete"}, new String[] {"segment.bytes", "1048577"},
                    new String[] {"retention.bytes", "99999999"}, new String[] {"index.interval.bytes", "7"},
                    new String[] {"message.timestamp.type", "LogAppendTime"}, new String[] {"preallocate", "true"},
                    new String[] {"leader.replication.throttled.replicas", "0:1"}, new String[] {"segment.index.bytes", "4096"},
                    new String[] {"min.insync.replicas", "1"}, new String[] {"max.compaction.lag.ms", "1000"},
                    new String[] {"compression.gzip.level", "9"}, new String[] {"unclean.leader.election.enable", "true"}));
                make.alter(ConfigResource.Type.TOPIC, name, chosen[0], chosen[1]);
            }
        }
        make.alter(ConfigResource.Type.CLIENT_METRICS, "wild pulse", "match", "client_id=a.*");
        make.alter(ConfigResource.Type.BROKER, random.nextInt(2) == 0 ? "" : "1", "log.cleaner.threads", "2");
        for (int number = 0; number < 5; number++) {
            produce(random.nextInt(3));
        }
    }

    /** Partitions to another log directory. */
    private void move() throws Exception {
        Map<TopicPartitionReplica, String> goals = new HashMap<>();
        List<String> paths = new ArrayList<>();
        var described = make.admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
        paths.addAll(new TreeSet<>(described.keySet()));
        described.values().forEach(directory -> directory.replicaInfos().keySet().stream()
            // a name that leaves no room for the ending -future cannot move
            .filter(partition -> topics.containsKey(partition.topic()) && partition.topic().length() < 150)
            .filter(partition -> random.nextInt(4) == 0)
            .forEach(partition -> goals.put(
                new TopicPartitionReplica(partition.topic(), partition.partition(), 1), any(paths))));
        if (!goals.isEmpty()) {
            make.admin.alterReplicaLogDirs(goals).all().get();
        }
        for (int tries = 0; tries < 300; tries++) {
            boolean moves = make.admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values().stream()
                .anyMatch(directory -> directory.replicaInfos().values().stream().anyMatch(info -> info.isFuture()));
            if (!moves) {
                return;
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("partitions have not moved within 30 s");
    }

    /** Transactions that nobody ends, some of which the coordinator ends when their time is over. */
    private void unfinished() throws Exception {
        for (int number = 0; number < 4; number++) {
            KafkaProducer<byte[], byte[]> open = make.producer("transactional.id", "w-unfinished-" + number,
                "transaction.timeout.ms", number % 2 == 0 ? "800" : "2147483647");
            Make.ALIVE.add(open);
            open.initTransactions();
            open.beginTransaction();
            for (int i = random.nextInt(6); i >= 0; i--) {
                open.send(Make.record("busy-txn", i % 2, "w" + number, "open " + i));
            }
            open.flush();
            if (random.nextInt(2) == 0) {
                open.sendOffsetsToTransaction(Map.of(new TopicPartition("txn", number % 3), new OffsetAndMetadata(1)),
                    new ConsumerGroupMetadata("w-open-" + random.nextInt(2)));
            }
        }
    }

    /** Members that stay, and static ones that come back. */
    private void members() throws Exception {
        String[] assignors = {"RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"};
        for (int number = 0; number < 4; number++) {
            boolean classic = random.nextInt(2) == 0;
            String assignor = assignors[random.nextInt(assignors.length)];
            for (int member = random.nextInt(3); member >= 0; member--) {
                List<String> settings = new ArrayList<>(List.of("client.id", any(List.of("w", "größe", "client 7"))));
                if (classic) {
                    settings.addAll(List.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor));
                } else {
                    settings.addAll(List.of("group.protocol", "consumer"));
                }
                if (random.nextInt(2) == 0) {
                    settings.addAll(List.of("group.instance.id", "w-" + number + "-" + member));
                }
                if (random.nextInt(2) == 0) {
                    settings.addAll(List.of("client.rack", "rack " + member));
                }
                KafkaConsumer<byte[], byte[]> one = make.consumer("w-live-" + number, settings.toArray(new String[0]));
                List<String> read = random.nextInt(2) == 0 ? List.of("plain", "txn") : List.of("busy", "empty", "plain");
                make.live(one, () -> one.subscribe(read));
            }
        }
        for (int number = 0; number < 2; number++) {
            for (int time = 0; time < 2; time++) {
                try (KafkaConsumer<byte[], byte[]> one = make.consumer("w-static-" + number, "group.protocol",
                    number == 0 ? "classic" : "consumer", "group.instance.id", "comes-back")) {
                    one.subscribe(List.of("plain"));
                    for (int tries = 0; tries < 60 && one.poll(Duration.ofMillis(100)).isEmpty(); tries++) {
                    }
                    one.commitSync();
                }
            }
        }
    }
}
