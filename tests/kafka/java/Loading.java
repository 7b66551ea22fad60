import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Parameter;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Loads the log of one partition as a broker does at its start, and closes it: a request in JSON as the one argument,
 * the answer, its offsets or the exception, on standard output.
 */
public final class Loading {
    private static final int MAX_TRANSACTION_TIMEOUT_MS = 300_000;
    private static final int PRODUCER_ID_EXPIRATION_MS = 86_400_000;
    private static final int CHECK_INTERVAL_MS = 600_000;
    private static final ScheduledThreadPoolExecutor EXECUTOR = new ScheduledThreadPoolExecutor(1);

    private Loading() {
    }

    public static void main(String[] args) throws Exception {
        System.out.println(Kit.JSON.writeValueAsString(of(Kit.JSON.readTree(args[0]))));
    }

    private static ObjectNode of(JsonNode request) throws Exception {
        ObjectNode answer = Kit.JSON.createObjectNode();
        try {
            Object log = open(request);
            answer.put("start", (Long) log.getClass().getMethod("logStartOffset").invoke(log));
            answer.put("end", (Long) log.getClass().getMethod("logEndOffset").invoke(log));
            log.getClass().getMethod("close").invoke(log);
        } catch (InvocationTargetException thrown) {
            answer.put("exception", thrown.getCause().getClass().getName());
            answer.put("text", String.valueOf(thrown.getCause().getMessage()));
        }
        return answer;
    }

    /** UnifiedLog.apply in Scala up to 4.0, UnifiedLog.create in Java from 4.1 on; their parameters are told by type. */
    private static Object open(JsonNode request) throws Exception {
        Properties settings = new Properties();
        request.get("settings").fields().forEachRemaining(
            entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        Class<?> unified;
        String name;
        try {
            unified = Class.forName("org.apache.kafka.storage.internals.log.UnifiedLog");
            unified.getMethod("logStartOffset");
            name = "create";
        } catch (ClassNotFoundException | NoSuchMethodException older) {
            unified = Class.forName("kafka.log.UnifiedLog");
            name = "apply";
        }
        List<Long> longs = new ArrayList<>(List.of(
            request.get("logStart").asLong(), request.get("recoveryPoint").asLong()));
        List<Integer> ints = new ArrayList<>(List.of(MAX_TRANSACTION_TIMEOUT_MS, CHECK_INTERVAL_MS));
        List<Boolean> flags = new ArrayList<>(List.of(request.get("clean").asBoolean(), true, false));
        Method method = shortest(unified, name);
        List<Object> arguments = new ArrayList<>();
        for (Parameter parameter : method.getParameters()) {
            arguments.add(argument(parameter.getType(), request, settings, longs, ints, flags));
        }
        return method.invoke(null, arguments.toArray());
    }

    private static Method shortest(Class<?> unified, String name) {
        Method found = null;
        for (Method method : unified.getMethods()) {
            boolean candidate = method.getName().equals(name) && method.getParameterCount() > 5;
            if (candidate && (found == null || method.getParameterCount() < found.getParameterCount())) {
                found = method;
            }
        }
        return found;
    }

    private static Object argument(
            Class<?> type, JsonNode request, Properties settings, List<Long> longs, List<Integer> ints,
            List<Boolean> flags) {
        if (type == long.class) {
            return longs.remove(0);
        } else if (type == int.class) {
            return ints.remove(0);
        } else if (type == boolean.class) {
            return flags.remove(0);
        } else if (type == File.class) {
            return new File(request.get("path").asText());
        } else if (type == LogConfig.class) {
            return new LogConfig(settings);
        } else if (type == Scheduler.class) {
            return new Idle();
        } else if (type == Time.class) {
            return new Fixed(request.get("now").asLong());
        } else if (type == ProducerStateManagerConfig.class) {
            return new ProducerStateManagerConfig(PRODUCER_ID_EXPIRATION_MS, false);
        } else if (type == LogDirFailureChannel.class) {
            return new LogDirFailureChannel(5);
        } else if (type == Optional.class) {
            return Optional.empty();
        } else if (type == ConcurrentMap.class) {
            return new ConcurrentHashMap<>();
        } else if (type == LogOffsetsListener.class) {
            return LogOffsetsListener.NO_OP_OFFSETS_LISTENER;
        }
        return made(type);
    }

    /** What is of another package in another release: the broker's figures, and Scala's None. */
    private static Object made(Class<?> type) {
        try {
            if (!type.getSimpleName().equals("BrokerTopicStats")) {
                return type.getMethod("empty").invoke(null);
            }
            Constructor<?> constructor = type.getConstructors()[0];
            return constructor.getParameterCount() == 0 ? constructor.newInstance() : constructor.newInstance(false);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException("a parameter of an unknown type: " + type, problem);
        }
    }

    /** What would be done later is never done; what is due at once is. */
    private static final class Idle implements Scheduler {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public void resizeThreadPool(int size) {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            if (period <= 0 && delay == 0) {
                task.run();
            }
            return EXECUTOR.schedule(() -> { }, 1, TimeUnit.DAYS);
        }
    }

    private static final class Fixed implements Time {
        private final long now;
        private long nanos;

        Fixed(long now) {
            this.now = now;
        }

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long hiResClockMs() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000 + nanos++;
        }

        @Override
        public void sleep(long ms) {
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }
    }
}
