import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Single steps that tests ask for. */
final class Steps {
    private Steps() {
    }

    static ObjectNode run(JsonNode request) throws Exception {
        String servers = request.get("servers").asText();
        ObjectNode answer = Kit.JSON.createObjectNode();
        switch (request.get("step").asText()) {
            case "create" -> {
                try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
                    Map<String, String> configs = new HashMap<>();
                    request.path("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
                    admin.createTopics(List.of(new NewTopic(request.get("topic").asText(),
                        request.path("partitions").asInt(1), (short) 1).configs(configs))).all().get();
                }
            }
            case "configure" -> {
                try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
                    ConfigEntry entry = new ConfigEntry(request.get("name").asText(), request.get("value").asText());
                    admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.BROKER, "1"),
                        List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
                }
            }
            case "delete" -> {
                try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
                    admin.deleteTopics(List.of(request.get("topic").asText())).all().get();
                }
            }
            case "move" -> {
                try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
                    admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(request.get("topic").asText(),
                        request.path("partition").asInt(0), 1), request.get("to").asText())).all().get();
                }
            }
            case "produce" -> {
                Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", servers));
                request.path("settings").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
                try (KafkaProducer<byte[], byte[]> one =
                         new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                    for (JsonNode value : request.get("values")) {
                        one.send(new ProducerRecord<>(request.get("topic").asText(), request.path("partition").asInt(0),
                            Make.bytes(request.path("key").asText(null)), Make.bytes(value.asText()))).get();
                    }
                }
            }
            default -> throw new IllegalArgumentException("no such step: " + request);
        }
        return answer;
    }
}
