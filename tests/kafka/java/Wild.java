import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.internals.RecordHeader;

/** More of everything, all of it by chance: other topics, settings, producers, records and groups for each seed. */
final class Wild {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final int[] BATCH_SIZES = {1, 200, 16_384, 600_000};
    private static final long DAY_MS = 86_400_000;

    private final Make make;
    private final Random random;
    private final Map<String, Integer> topics = new HashMap<>();
    private final Set<String> keyed = new HashSet<>();

    Wild(Make make, long seed) {
        this.make = make;
        this.random = new Random(seed);
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
        List<String> names = new ArrayList<>(new java.util.TreeSet<>(topics.keySet()));
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
        List<String> names = new ArrayList<>(new java.util.TreeSet<>(topics.keySet()));
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
}
