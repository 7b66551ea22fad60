import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * What the settings of this release are: a line of JSON for each name that topics or servers have, with its type, its
 * default, and which of the texts that follow the class name it refuses when a broker starts with one of them.
 */
public final class Settings {
    private static final Map<String, String> SERVER = Map.of(
        "process.roles", "broker,controller", "node.id", "1", "controller.quorum.voters", "1@localhost:2",
        "listeners", "PLAINTEXT://:1,CONTROLLER://:2", "controller.listener.names", "CONTROLLER",
        "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "log.dirs", "/nowhere");

    private interface Attempt {
        void with(String name, String text) throws Exception;
    }

    public static void main(String[] texts) throws Exception {
        tell("topic", LogConfig.configDefCopy(), List.of(texts), (name, text) -> new LogConfig(Map.of(name, text)));
        tell("server", KafkaConfig.configDef(), List.of(texts), (name, text) -> {
            Properties properties = new Properties();
            properties.putAll(SERVER);
            properties.put(name, text);
            new LogConfig(new HashMap<>(KafkaConfig.fromProps(properties, false).extractLogConfigMap()));
        });
    }

    private static void tell(String scope, ConfigDef all, List<String> texts, Attempt attempt) throws Exception {
        for (ConfigDef.ConfigKey key : new TreeMap<>(all.configKeys()).values()) {
            List<String> refused = new ArrayList<>();
            for (String text : texts) {
                try {
                    attempt.with(key.name, text);
                } catch (RuntimeException problem) {
                    refused.add(text);
                }
            }
            ObjectNode row = Kit.JSON.createObjectNode().put("scope", scope).put("name", key.name);
            row.put("type", key.type.toString()).put("is_internal", key.internalConfig);
            row.put("default", ConfigDef.convertToString(key.hasDefault() ? key.defaultValue : null, key.type));
            refused.forEach(row.putArray("refused")::add);
            System.out.println(row);
        }
    }
}
