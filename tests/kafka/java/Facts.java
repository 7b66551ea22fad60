import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * What this release's classes say of it, a line each: levels of metadata.version, the features that a broker registers
 * and their defaults by level, every setting with its scope, and the limits of the readers that Kafka generates.
 * What a release does not have, or has elsewhere, is looked up by name.
 */
public final class Facts {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ClassLoader LOADER = Facts.class.getClassLoader();

    public static void main(String[] arguments) throws Exception {
        MetadataVersion production = MetadataVersion.latestProduction();
        for (MetadataVersion version : MetadataVersion.values()) {
            tell("level", version.featureLevel(), version.version());
        }
        tell("production", production.featureLevel());
        features(production);
        settings("topic", LogConfig.configDefCopy());
        settings("server", KafkaConfig.configDef());
        settings("group", "org.apache.kafka.coordinator.group.GroupConfig", "CONFIG_DEF", "CONFIG");
        settings("client-metrics", "org.apache.kafka.server.metrics.ClientMetricsConfigs", "CONFIG_DEF", "CONFIG");
        for (String name : new String[] {"QuotaConfig", "QuotaConfigs"}) {
            String quotas = "org.apache.kafka.server.config." + name;
            settings("broker-quota", quotas, "brokerQuotaConfigs");
            settings("client-quota", quotas, "userAndClientQuotaConfigs");
            settings("ip-quota", quotas, "ipConfigs");
        }
        Class<?> limits = Class.forName("org.apache.kafka.common.protocol.MessageUtil");
        for (Field field : limits.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && field.getType() == int.class && field.getName().startsWith("MAX_")) {
                field.setAccessible(true);
                tell("limit", field.getName(), field.get(null));
            }
        }
    }

    private static void features(MetadataVersion production) throws Exception {
        Class<?> quorum = Class.forName("org.apache.kafka.controller.QuorumFeatures");
        Method map = method(quorum, boolean.class, "defaultSupportedFeatureMap", "defaultFeatureMap");
        Object supported = map.invoke(null, false);
        for (Map.Entry<?, ?> entry : new TreeMap<>((Map<?, ?>) supported).entrySet()) {
            Object range = entry.getValue();
            Method min = range.getClass().getMethod("min");
            Method max = range.getClass().getMethod("max");
            tell("feature", entry.getKey(), min.invoke(range), max.invoke(range));
        }
        Class<?> all = named("org.apache.kafka.server.common.Feature", "org.apache.kafka.server.common.Features");
        for (Object feature : (Iterable<?>) all.getField("PRODUCTION_FEATURES").get(null)) {
            String name = (String) all.getMethod("featureName").invoke(feature);
            Method level = method(all, MetadataVersion.class, "defaultLevel", "defaultValue");
            int before = 0;
            for (MetadataVersion version : MetadataVersion.values()) {
                if (version.compareTo(production) <= 0) {
                    int now = ((Number) level.invoke(feature, version)).intValue();
                    if (now != before) {
                        tell("default", name, version.featureLevel(), now);
                        before = now;
                    }
                }
            }
        }
    }

    private static Method method(Class<?> type, Class<?> argument, String... names) throws Exception {
        for (String name : names) {
            try {
                return type.getMethod(name, argument);
            } catch (NoSuchMethodException absent) {
                continue;
            }
        }
        throw new NoSuchMethodException(type + " " + String.join(", ", names));
    }

    private static Class<?> named(String... names) throws Exception {
        for (String name : names) {
            try {
                return Class.forName(name, true, LOADER);
            } catch (ClassNotFoundException absent) {
                continue;
            }
        }
        throw new ClassNotFoundException(String.join(", ", names));
    }

    private static void settings(String scope, String type, String... members) throws Exception {
        Class<?> owner;
        try {
            owner = Class.forName(type, true, LOADER);
        } catch (ClassNotFoundException absent) {
            return;
        }
        for (String member : members) {
            for (Field field : owner.getDeclaredFields()) {
                if (field.getName().equals(member) && field.getType() == ConfigDef.class) {
                    field.setAccessible(true);
                    settings(scope, (ConfigDef) field.get(null));
                    return;
                }
            }
            for (Method method : owner.getDeclaredMethods()) {
                if (method.getName().equals(member) && method.getReturnType() == ConfigDef.class) {
                    method.setAccessible(true);
                    settings(scope, (ConfigDef) method.invoke(null));
                    return;
                }
            }
        }
        throw new NoSuchFieldException(type + ": " + String.join(", ", members));
    }

    private static void settings(String scope, ConfigDef all) throws Exception {
        for (ConfigDef.ConfigKey key : new TreeMap<>(all.configKeys()).values()) {
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            tell("setting", scope, key.name, key.type.toString(), value);
        }
    }

    private static void tell(Object... row) throws Exception {
        System.out.println(JSON.writeValueAsString(row));
    }
}
