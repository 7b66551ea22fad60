import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.DelegationTokenNotFoundException;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
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
            case "tokens" -> tokens(servers, request.get("sasl").asText(), answer);
            default -> throw new IllegalArgumentException("no such step: " + request);
        }
        return answer;
    }

    /** Make delegation tokens as a SCRAM user, which only those who are somebody can; the answer says what is left. */
    private static void tokens(String servers, String sasl, ObjectNode answer) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice",
                new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all().get();
        }
        String module = "org.apache.kafka.common.security.scram.ScramLoginModule";
        Map<String, Object> settings = Map.of("bootstrap.servers", sasl, "security.protocol", "SASL_PLAINTEXT",
            "sasl.mechanism", "SCRAM-SHA-256",
            "sasl.jaas.config", module + " required username=\"alice\" password=\"secret\";");
        try (Admin admin = Admin.create(settings)) {
            KafkaPrincipal bob = new KafkaPrincipal("User", "bob");
            CreateDelegationTokenOptions renewed = new CreateDelegationTokenOptions().renewers(List.of(bob));
            admin.createDelegationToken(renewed).delegationToken().get();
            CreateDelegationTokenOptions brief = new CreateDelegationTokenOptions().maxlifeTimeMs(3_600_000);
            byte[] one = admin.createDelegationToken(brief).delegationToken().get().hmac();
            byte[] other = admin.createDelegationToken().delegationToken().get().hmac();
            known(() -> admin.renewDelegationToken(one).expiryTimestamp());
            ExpireDelegationTokenOptions now = new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1);
            known(() -> admin.expireDelegationToken(other, now).expiryTimestamp());
            ArrayNode tokens = answer.putArray("tokens");
            for (DelegationToken each : left(admin, 2)) {
                TokenInformation token = each.tokenInfo();
                ObjectNode row = tokens.addObject().put("tokenId", token.tokenId()).put("owner", token.owner().toString())
                    .put("requester", token.tokenRequester().toString()).put("issueTimestamp", token.issueTimestamp())
                    .put("maxTimestamp", token.maxTimestamp()).put("expirationTimestamp", token.expiryTimestamp());
                token.renewersAsString().forEach(row.putArray("renewers")::add);
            }
        }
    }

    /** Ask until the controller knows the token, of which its own cache hears later than the broker that asks. */
    private static void known(Supplier<KafkaFuture<?>> request) throws Exception {
        while (true) {
            try {
                request.get().get();
                return;
            } catch (ExecutionException problem) {
                if (!(problem.getCause() instanceof DelegationTokenNotFoundException)) {
                    throw problem;
                }
                Thread.sleep(50);
            }
        }
    }

    /** The tokens once there are so many: the broker learns from the controller of one that is expired. */
    private static List<DelegationToken> left(Admin admin, int number) throws Exception {
        List<DelegationToken> tokens = admin.describeDelegationToken().delegationTokens().get();
        while (tokens.size() != number) {
            Thread.sleep(50);
            tokens = admin.describeDelegationToken().delegationTokens().get();
        }
        return tokens;
    }
}
