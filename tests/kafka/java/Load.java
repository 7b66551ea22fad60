import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producers that write until they are told to stop, or until the broker is gone. Topics begin with a prefix. */
final class Load {
    private static final List<Thread> THREADS = new ArrayList<>();
    private static final List<KafkaProducer<byte[], byte[]>> PRODUCERS = new ArrayList<>();
    private static final AtomicLong SENT = new AtomicLong();
    private static volatile boolean going;

    private Load() {
    }

    static void start(String servers, String prefix) {
        going = true;
        run(servers, Map.of("compression.type", "lz4"), (one, random) -> {
            for (int i = 0; i < 200; i++) {
                send(one, prefix, random.nextInt(4), "k" + i, "load ".repeat(random.nextInt(20)));
            }
            Thread.sleep(20);
        });
        run(servers, Map.of("enable.idempotence", "false", "acks", "1", "linger.ms", "0"), (one, random) -> {
            send(one, prefix, random.nextInt(4), null, "a small batch");
            send(one, prefix + "-expired", 0, null, "soon gone");
            Thread.sleep(3);
        });
        run(servers, Map.of("compression.type", "zstd"), (one, random) -> {
            for (int i = 0; i < 50; i++) {
                String key = "key-" + random.nextInt(100);
                send(one, prefix + "-compacted", random.nextInt(2), key, random.nextInt(5) == 0 ? null : "v" + i);
            }
            Thread.sleep(15);
        });
        for (String id : List.of("load-a", "load-b")) {
            boolean[] ready = {false};
            run(servers, Map.of("transactional.id", id, "transaction.timeout.ms", "2147483647"), (one, random) -> {
                if (!ready[0]) {
                    one.initTransactions();
                    ready[0] = true;
                }
                one.beginTransaction();
                for (int i = 0; i < 10; i++) {
                    send(one, prefix + "-txn", random.nextInt(2), id, "t" + i);
                }
                one.flush();
                Thread.sleep(random.nextInt(60));
                if (random.nextInt(3) == 0) {
                    one.abortTransaction();
                } else {
                    one.commitTransaction();
                }
            });
        }
    }

    private interface Step {
        void run(KafkaProducer<byte[], byte[]> producer, Random random) throws Exception;
    }

    private static void run(String servers, Map<String, Object> settings, Step step) {
        Map<String, Object> all = new java.util.HashMap<>(settings);
        all.put("bootstrap.servers", servers);
        all.putIfAbsent("linger.ms", "5");
        KafkaProducer<byte[], byte[]> one =
            new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
        PRODUCERS.add(one);
        Random random = new Random(PRODUCERS.size());
        Thread thread = new Thread(() -> {
            try {
                while (going) {
                    step.run(one, random);
                }
            } catch (Exception end) {
                System.err.println("a producer ended: " + end);
            }
        });
        thread.setDaemon(true);
        thread.start();
        THREADS.add(thread);
    }

    private static void send(KafkaProducer<byte[], byte[]> one, String topic, int partition, String key, String value) {
        one.send(new ProducerRecord<>(topic, partition, Make.bytes(key), Make.bytes(value)));
        SENT.incrementAndGet();
    }

    static ObjectNode figures() {
        return Kit.JSON.createObjectNode().put("sent", SENT.get());
    }

    static void stop() throws Exception {
        going = false;
        for (Thread thread : THREADS) {
            thread.join(10_000);
        }
        for (KafkaProducer<byte[], byte[]> one : PRODUCERS) {
            one.close(java.time.Duration.ofSeconds(5));
        }
        THREADS.clear();
        PRODUCERS.clear();
    }
}
