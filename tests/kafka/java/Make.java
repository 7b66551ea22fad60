import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
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
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Makes directories rich: everything that brokers and clients write, a little of each. Members of groups and an open
 * transaction stay alive until this process ends. Classes named Since… add what older clients do not have.
 */
public final class Make {
    static final List<AutoCloseable> ALIVE = new ArrayList<>();
    private static final Random RANDOM = new Random(20261122);
    private static final String LONG_NAME = "long." + "n".repeat(120) + "_name-with-1";

    final String servers;
    final Admin admin;

    private Make(String servers, Admin admin) {
        this.servers = servers;
        this.admin = admin;
    }

    static void run(String servers, long seed) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            Make make = new Make(servers, admin);
            Wild wild = new Wild(make, seed);
            make.topics();
            make.access();
            if (seed != 0) {
                wild.upgrade();
            }
            make.plain();
            make.codecs();
            make.shapes();
            make.times();
            make.compacted();
            make.transactions();
            make.shortened();
            make.groups();
            for (String more : Kit.NEWER) {
                try {
                    Class.forName(more).getMethod("make", Make.class).invoke(null, make);
                } catch (ClassNotFoundException | NoSuchMethodException older) {
                    // This release's clients do not have it.
                }
            }
            if (seed != 0) {
                wild.run();
            }
        }
    }

    void topic(String name, int partitions, String... settings) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (int i = 0; i < settings.length; i += 2) {
            configs.put(settings[i], settings[i + 1]);
        }
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(configs))).all().get();
    }

    private void topics() throws Exception {
        topic("plain", 3, "segment.ms", "150", "index.interval.bytes", "256");
        topic("defaults", 2, "segment.index.bytes", "10485760");
        topic("empty", 2);
        topic("headers", 1);
        topic("shapes", 1, "max.message.bytes", "2000000");
        topic("append-time", 1, "message.timestamp.type", "LogAppendTime", "segment.ms", "200");
        topic("create-time", 2, "segment.ms", "300", "index.interval.bytes", "0");
        topic("compacted", 2, "cleanup.policy", "compact", "segment.ms", "200", "min.cleanable.dirty.ratio", "0.01",
            "delete.retention.ms", "1000");
        topic("compacted-slow", 1, "cleanup.policy", "compact", "segment.ms", "200");
        topic("compact-delete", 1, "cleanup.policy", "compact,delete", "segment.ms", "200", "retention.ms", "864000000000",
            "min.cleanable.dirty.ratio", "0.01");
        topic("txn", 3, "segment.ms", "250");
        topic("txn-open", 1);
        topic("txn-compacted", 1, "cleanup.policy", "compact", "segment.ms", "200", "min.cleanable.dirty.ratio", "0.01",
            "delete.retention.ms", "500");
        topic("trimmed", 2, "segment.ms", "150");
        topic("expired", 1, "segment.ms", "200", "retention.ms", "1000");
        topic("small", 1, "retention.bytes", "20000", "segment.ms", "200");
        topic("big", 1, "segment.bytes", "1048576");
        topic("gone", 2);
        topic("again", 1);
        topic("busy", 4, "segment.ms", "700", "index.interval.bytes", "1024");
        topic("busy-compacted", 2, "cleanup.policy", "compact", "segment.ms", "500", "min.cleanable.dirty.ratio", "0.1");
        topic("busy-txn", 2, "segment.ms", "900");
        topic("busy-expired", 1, "segment.ms", "500", "retention.ms", "2000");
        topic(LONG_NAME, 1);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            topic("codec-" + codec, 1);
        }
        topic("recompressed", 1, "compression.type", "zstd");
    }

    private void access() throws Exception {
        alter(ConfigResource.Type.TOPIC, "defaults", "retention.ms", "123456789012");
        alter(ConfigResource.Type.TOPIC, "defaults", "min.insync.replicas", "1");
        alter(ConfigResource.Type.BROKER, "", "log.retention.bytes", "900000000");
        alter(ConfigResource.Type.BROKER, "1", "background.threads", "9");
        alter(ConfigResource.Type.CLIENT_METRICS, "pulse", "interval.ms", "60000");
        for (String principal : List.of("User:alice", "User:bob")) {
            admin.createAcls(List.of(
                new AclBinding(new ResourcePattern(ResourceType.TOPIC, "plain", PatternType.LITERAL),
                    new AccessControlEntry(principal, "*", AclOperation.READ, AclPermissionType.ALLOW)),
                new AclBinding(new ResourcePattern(ResourceType.GROUP, "g-", PatternType.PREFIXED),
                    new AccessControlEntry(principal, "10.0.0.1", AclOperation.ALL, AclPermissionType.DENY)))).all().get();
        }
        admin.alterClientQuotas(List.of(
            new ClientQuotaAlteration(new ClientQuotaEntity(Map.of("user", "alice")),
                List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1048576.0))),
            new ClientQuotaAlteration(new ClientQuotaEntity(Map.of("client-id", "slow", "user", "bob")),
                List.of(new ClientQuotaAlteration.Op("consumer_byte_rate", 2048.0))))).all().get();
        admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192), "secret"),
            new UserScramCredentialUpsertion("bob", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), "secret")))
            .all().get();
    }

    void alter(ConfigResource.Type type, String name, String key, String value) throws Exception {
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name),
            List.of(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)))).all().get();
    }

    KafkaProducer<byte[], byte[]> producer(String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("linger.ms", "5");
        for (int i = 0; i < settings.length; i += 2) {
            properties.put(settings[i], settings[i + 1]);
        }
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int partition, String key, String value) {
        return new ProducerRecord<>(topic, partition, bytes(key), bytes(value));
    }

    /** Small segments in a topic with a short segment.ms: flushed, then waited for the next one to begin. */
    private void plain() throws Exception {
        try (KafkaProducer<byte[], byte[]> idempotent = producer();
             KafkaProducer<byte[], byte[]> simple = producer("enable.idempotence", "false", "acks", "1")) {
            for (int round = 0; round < 8; round++) {
                for (int i = 0; i < 60; i++) {
                    KafkaProducer<byte[], byte[]> one = round % 3 == 2 ? simple : idempotent;
                    one.send(record("plain", i % 3, "key-" + i, "{\"round\":" + round + ",\"i\":" + i + "}"));
                    one.send(record("defaults", i % 2, null, "value " + round + " " + i));
                    one.send(record("trimmed", i % 2, "k" + i, "trim " + round + " " + i));
                    one.send(record("small", 0, "k" + i, "x".repeat(100)));
                    one.send(record("append-time", 0, "k" + i, "at " + round));
                    one.send(record("expired", 0, "k" + i, "soon gone"));
                }
                idempotent.flush();
                simple.flush();
                Thread.sleep(220);
            }
            for (int i = 0; i < 30; i++) {
                idempotent.send(record("gone", i % 2, "k" + i, "deleted with its topic")).get();
                idempotent.send(record("again", 0, "k" + i, "of the first topic"));
            }
            idempotent.send(record(LONG_NAME, 0, "k", "v")).get();
        }
        byte[] noise = new byte[900];
        try (KafkaProducer<byte[], byte[]> one = producer("batch.size", "60000")) {
            for (int i = 0; i < 2600; i++) {
                RANDOM.nextBytes(noise);
                one.send(new ProducerRecord<>("big", 0, bytes("k" + i), noise.clone()));
            }
        }
        admin.deleteTopics(List.of("again")).all().get();
    }

    private void codecs() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            try (KafkaProducer<byte[], byte[]> one = producer("compression.type", codec, "linger.ms", "20")) {
                for (int i = 0; i < 300; i++) {
                    one.send(record("codec-" + codec, 0, "key " + i, "a text that says itself again, " + i % 7));
                    one.send(record("recompressed", 0, codec + i, "to be compressed anew"));
                }
            }
        }
    }

    private void shapes() throws Exception {
        try (KafkaProducer<byte[], byte[]> one = producer("max.request.size", "2000000")) {
            for (int i = 0; i < 40; i++) {
                ProducerRecord<byte[], byte[]> plain = record("headers", 0, i % 3 == 0 ? null : "k" + i, "v" + i);
                for (int header = 0; header < i % 5; header++) {
                    plain.headers().add(new RecordHeader("name-" + header, header == 3 ? null : bytes("Grüße " + header)));
                }
                one.send(plain);
            }
            one.send(new ProducerRecord<>("shapes", 0, null, null));
            one.send(new ProducerRecord<>("shapes", 0, new byte[0], new byte[0]));
            one.send(new ProducerRecord<>("shapes", 0, new byte[] {(byte) 0xff, 0, (byte) 0xc3}, new byte[] {10, 13, 27, 0}));
            one.send(record("shapes", 0, "🐘 \u2028", "\"quoted\" \\ , ; \t"));
            one.send(new ProducerRecord<>("shapes", 0, bytes("large"), new byte[1_500_000])).get();
            one.send(record("shapes", 0, "after", "the large one"));
        }
    }

    /** Times out of order, equal ones, old ones, and segments that overlap in time. */
    private void times() throws Exception {
        long now = System.currentTimeMillis();
        try (KafkaProducer<byte[], byte[]> one = producer("linger.ms", "0")) {
            for (int round = 0; round < 5; round++) {
                for (int i = 0; i < 40; i++) {
                    long time = now - 100_000 + round * 1000L + RANDOM.nextInt(5000) - (i % 10 == 0 ? 3_600_000 : 0);
                    one.send(new ProducerRecord<>("create-time", 0, time, bytes("k" + i), bytes("random time")));
                    one.send(new ProducerRecord<>("create-time", 1, now - round, bytes("k" + i), bytes("equal times")));
                    if (i % 8 == 7) {
                        one.flush();
                    }
                }
                Thread.sleep(330);
            }
        }
    }

    private void compacted() throws Exception {
        try (KafkaProducer<byte[], byte[]> one = producer("compression.type", "lz4");
             KafkaProducer<byte[], byte[]> simple = producer("enable.idempotence", "false")) {
            for (int round = 0; round < 6; round++) {
                for (int i = 0; i < 50; i++) {
                    String key = "key-" + RANDOM.nextInt(20);
                    String value = RANDOM.nextInt(4) == 0 ? null : "value " + round + " " + i;
                    for (String topic : List.of("compacted", "compacted-slow", "compact-delete")) {
                        (i % 2 == 0 ? one : simple).send(record(topic, 0, key, value));
                    }
                    one.send(record("compacted", 1, "unique-" + round + "-" + i, "kept"));
                }
                one.flush();
                simple.flush();
                Thread.sleep(250);
            }
        }
    }

    private void transactions() throws Exception {
        for (String id : List.of("t-one", "t-two", "t-three")) {
            try (KafkaProducer<byte[], byte[]> one = producer("transactional.id", id, "compression.type", "snappy")) {
                one.initTransactions();
                for (int round = 0; round < 9; round++) {
                    one.beginTransaction();
                    for (int i = 0; i < 12; i++) {
                        one.send(record("txn", i % (round % 3 + 1), id + i, "in transaction " + round));
                        one.send(record("txn-compacted", 0, "key-" + i % 5, i % 4 == 0 ? null : id + round));
                    }
                    one.flush();
                    if (round % 3 == 1) {
                        one.abortTransaction();
                    } else {
                        one.commitTransaction();
                    }
                    Thread.sleep(60);
                }
            }
        }
        // Two producers in each other's way: overlapping transactions, one aborted.
        try (KafkaProducer<byte[], byte[]> left = producer("transactional.id", "t-left");
             KafkaProducer<byte[], byte[]> right = producer("transactional.id", "t-right");
             KafkaProducer<byte[], byte[]> none = producer()) {
            left.initTransactions();
            right.initTransactions();
            for (int round = 0; round < 4; round++) {
                left.beginTransaction();
                right.beginTransaction();
                for (int i = 0; i < 5; i++) {
                    left.send(record("txn", 2, "left", "l" + i));
                    left.flush();
                    right.send(record("txn", 2, "right", "r" + i));
                    right.flush();
                    none.send(record("txn", 2, "none", "n" + i)).get();
                }
                if (round % 2 == 0) {
                    left.commitTransaction();
                    right.abortTransaction();
                } else {
                    right.commitTransaction();
                    left.abortTransaction();
                }
            }
        }
        // A producer that is fenced by its successor in the middle of a transaction.
        KafkaProducer<byte[], byte[]> fenced = producer("transactional.id", "t-fenced");
        fenced.initTransactions();
        fenced.beginTransaction();
        fenced.send(record("txn", 1, "fenced", "aborted by the next")).get();
        try (KafkaProducer<byte[], byte[]> next = producer("transactional.id", "t-fenced")) {
            next.initTransactions();
            next.beginTransaction();
            next.send(record("txn", 1, "next", "committed"));
            next.commitTransaction();
        }
        fenced.close(Duration.ZERO);
        // And one left open, with committed records behind it.
        KafkaProducer<byte[], byte[]> open = producer("transactional.id", "t-open", "transaction.timeout.ms", "2147483647");
        ALIVE.add(open);
        open.initTransactions();
        open.beginTransaction();
        for (int i = 0; i < 5; i++) {
            open.send(record("txn-open", 0, "open", "never ended " + i));
        }
        open.flush();
        try (KafkaProducer<byte[], byte[]> behind = producer()) {
            for (int i = 0; i < 20; i++) {
                behind.send(record("txn-open", 0, "k" + i, "behind the open one"));
            }
        }
    }

    private void shortened() throws Exception {
        admin.deleteRecords(Map.of(new TopicPartition("trimmed", 0), RecordsToDelete.beforeOffset(70))).all().get();
        admin.deleteRecords(Map.of(new TopicPartition("trimmed", 1), RecordsToDelete.beforeOffset(-1))).all().get();
        admin.deleteTopics(List.of("gone")).all().get();
        topic("again", 1, "retention.ms", "-1");
        try (KafkaProducer<byte[], byte[]> one = producer()) {
            for (int i = 0; i < 10; i++) {
                one.send(record("again", 0, "k" + i, "of the second topic"));
            }
        }
    }

    KafkaConsumer<byte[], byte[]> consumer(String group, String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", group);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        for (int i = 0; i < settings.length; i += 2) {
            properties.put(settings[i], settings[i + 1]);
        }
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** A member that joins, commits what it read, and polls on until the process ends. */
    void live(KafkaConsumer<byte[], byte[]> member, Runnable subscribe) throws Exception {
        CountDownLatch joined = new CountDownLatch(1);
        Thread thread = new Thread(() -> {
            try {
                subscribe.run();
                while (!Thread.interrupted()) {
                    if (member.poll(Duration.ofMillis(100)).count() > 0 && joined.getCount() > 0) {
                        member.commitSync();
                    }
                    if (!member.assignment().isEmpty()) {
                        joined.countDown();
                    }
                }
            } catch (org.apache.kafka.common.KafkaException end) {
                System.err.println("a live member ended: " + end);
            }
        });
        thread.setDaemon(true);
        thread.start();
        if (!joined.await(30, java.util.concurrent.TimeUnit.SECONDS)) {
            throw new IllegalStateException("a member got nothing assigned within 30 s");
        }
    }

    private void groups() throws Exception {
        // Read and left: an empty group with commits.
        for (String group : List.of("g-empty", "g-expired-topic")) {
            try (KafkaConsumer<byte[], byte[]> one = consumer(group)) {
                one.subscribe(group.equals("g-empty") ? List.of("plain", "defaults") : List.of("again"));
                for (int i = 0; i < 40 && one.poll(Duration.ofMillis(100)).isEmpty(); i++) {
                }
                one.commitSync();
            }
        }
        // Commits without a member, with metadata, and one that is deleted.
        admin.alterConsumerGroupOffsets("g-admin", Map.of(
            new TopicPartition("plain", 0), new OffsetAndMetadata(7, "by hand"),
            new TopicPartition("plain", 1), new OffsetAndMetadata(9),
            new TopicPartition("big", 0), new OffsetAndMetadata(2600))).all().get();
        admin.deleteConsumerGroupOffsets("g-admin", Set.of(new TopicPartition("plain", 1))).all().get();
        admin.alterConsumerGroupOffsets("g-deleted", Map.of(
            new TopicPartition("plain", 0), new OffsetAndMetadata(1))).all().get();
        admin.deleteConsumerGroups(List.of("g-deleted")).all().get();
        // Offsets of transactions: committed, only aborted, left open.
        transactional("g-txn", true);
        transactional("g-txn-mixed", true);
        transactional("g-txn-mixed", false);
        transactional("g-txn-aborted", false);
        KafkaProducer<byte[], byte[]> open = producer("transactional.id", "t-open-offsets", "transaction.timeout.ms", "2147483647");
        ALIVE.add(open);
        open.initTransactions();
        open.beginTransaction();
        open.sendOffsetsToTransaction(Map.of(new TopicPartition("plain", 2), new OffsetAndMetadata(3)),
            new org.apache.kafka.clients.consumer.ConsumerGroupMetadata("g-txn-open"));
        // Members that stay: classic ones of two assignors, a static one, and those of the newer protocol.
        for (int i = 0; i < 2; i++) {
            KafkaConsumer<byte[], byte[]> one = consumer("g-classic", "client.id", "classic-" + i,
                "session.timeout.ms", "120000");
            live(one, () -> one.subscribe(List.of("plain")));
        }
        KafkaConsumer<byte[], byte[]> fixed = consumer("g-static", "group.instance.id", "fixed-1", "session.timeout.ms",
            "120000", "client.rack", "rack-a", ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG,
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        live(fixed, () -> fixed.subscribe(List.of("plain", "txn")));
        for (int i = 0; i < 2; i++) {
            KafkaConsumer<byte[], byte[]> one = consumer("g-consumer", "group.protocol", "consumer", "client.id", "new-" + i);
            live(one, () -> one.subscribe(List.of("plain", "codec-zstd")));
        }
        KafkaConsumer<byte[], byte[]> uniform = consumer("g-consumer-static", "group.protocol", "consumer",
            "group.instance.id", "fixed-2", "group.remote.assignor", "range", "client.rack", "rack-b");
        live(uniform, () -> uniform.subscribe(List.of("headers")));
        // One that came and went.
        try (KafkaConsumer<byte[], byte[]> one = consumer("g-consumer-empty", "group.protocol", "consumer")) {
            one.subscribe(List.of("defaults"));
            for (int i = 0; i < 60 && one.poll(Duration.ofMillis(100)).isEmpty(); i++) {
            }
            one.commitSync();
        }
    }

    private void transactional(String group, boolean commit) throws Exception {
        try (KafkaProducer<byte[], byte[]> one = producer("transactional.id", "t-offsets-" + group)) {
            one.initTransactions();
            one.beginTransaction();
            one.send(record("txn", 0, group, "with offsets"));
            one.sendOffsetsToTransaction(
                Map.of(new TopicPartition("plain", 0), new OffsetAndMetadata(commit ? 11 : 12, "of a transaction")),
                new org.apache.kafka.clients.consumer.ConsumerGroupMetadata(group));
            if (commit) {
                one.commitTransaction();
            } else {
                one.abortTransaction();
            }
        }
    }
}
