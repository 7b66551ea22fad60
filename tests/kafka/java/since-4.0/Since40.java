import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Random;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What clients have since 4.0: subscriptions by a pattern that the broker resolves, and share groups. */
public final class Since40 {
    private Since40() {
    }

    public static void make(Make make) throws Exception {
        KafkaConsumer<byte[], byte[]> pattern = make.consumer("g-pattern", "group.protocol", "consumer");
        make.live(pattern, () -> pattern.subscribe(new SubscriptionPattern("codec-.*")));
        make.alter(ConfigResource.Type.GROUP, "s-share", "share.auto.offset.reset", "earliest");
        make.alter(ConfigResource.Type.GROUP, "s-empty", "share.auto.offset.reset", "earliest");
        make.alter(ConfigResource.Type.GROUP, "s-share", "share.record.lock.duration.ms", "60000");
        share(make, "s-empty", 3).close();
        // Stays, with records acquired and neither accepted nor released.
        Make.ALIVE.add(share(make, "s-share", 12));
    }

    /** Patterns, and share groups of topics and settings by chance. */
    public static void wild(Make make, Random random) throws Exception {
        for (int number = 0; number < 2; number++) {
            KafkaConsumer<byte[], byte[]> pattern = make.consumer("w-pattern-" + number, "group.protocol", "consumer");
            String wanted = List.of("wild.*", "p.*|t.*").get(random.nextInt(2));
            make.live(pattern, () -> pattern.subscribe(new SubscriptionPattern(wanted)));
        }
        make.alter(ConfigResource.Type.GROUP, "w-group-1", "consumer.session.timeout.ms", "50000");
        for (int number = 0; number < 3; number++) {
            String group = "w-share-" + number;
            make.alter(ConfigResource.Type.GROUP, group, "share.auto.offset.reset", "earliest");
            make.alter(ConfigResource.Type.GROUP, group, "share.isolation.level",
                random.nextInt(2) == 0 ? "read_committed" : "read_uncommitted");
            KafkaShareConsumer<byte[], byte[]> one = share(make, group, 2 + random.nextInt(8));
            if (number == 0) {
                Make.ALIVE.add(one);
            } else {
                one.close();
            }
        }
    }

    /** A member that accepts, releases and rejects in turn, and ends with a few records in hand. */
    private static KafkaShareConsumer<byte[], byte[]> share(Make make, String group, int rounds) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", make.servers);
        properties.put("group.id", group);
        properties.put("max.poll.records", "20");
        properties.put("share.acknowledgement.mode", "explicit");
        KafkaShareConsumer<byte[], byte[]> one =
            new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        one.subscribe(List.of("plain", "codec-gzip"));
        AcknowledgeType[] types = {AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE,
            AcknowledgeType.ACCEPT, AcknowledgeType.REJECT};
        int polled = 0;
        for (int tries = 0; polled < rounds; tries++) {
            if (tries > 300) {
                throw new IllegalStateException("a share group got nothing");
            }
            boolean any = false;
            for (ConsumerRecord<byte[], byte[]> item : one.poll(Duration.ofMillis(100))) {
                any = true;
                one.acknowledge(item, types[(int) (item.offset() % types.length)]);
            }
            polled += any ? 1 : 0;
            if (any) {
                one.commitSync();
            }
        }
        one.poll(Duration.ofMillis(500));
        return one;
    }

    public static void truth(Admin admin, ObjectNode said) throws Exception {
        List<String> shares = new ArrayList<>();
        ObjectNode listed = said.putObject("listed");
        for (GroupListing group : admin.listGroups().all().get()) {
            listed.putObject(group.groupId())
                .put("type", group.type().map(type -> type.toString().toLowerCase(Locale.ROOT)).orElse(null))
                .put("state", group.groupState().map(Object::toString).orElse(null)).put("protocol", group.protocol());
            if (group.type().filter(GroupType.SHARE::equals).isPresent()) {
                shares.add(group.groupId());
            }
        }
        ObjectNode groups = said.putObject("shareGroups");
        admin.describeShareGroups(shares).all().get().forEach((name, description) -> {
            ObjectNode one = groups.putObject(name);
            one.put("state", description.groupState().toString());
            ObjectNode members = one.putObject("members");
            description.members().forEach(member -> {
                TreeSet<String> assigned = new TreeSet<>();
                member.assignment().topicPartitions().forEach(partition -> assigned.add(partition.toString()));
                assigned.forEach(members.putObject(member.consumerId()).put("client", member.clientId())
                    .put("host", member.host()).putArray("assignment")::add);
            });
        });
        admin.describeConsumerGroups(names(said.get("groups"))).all().get().forEach((name, description) -> {
            ObjectNode one = (ObjectNode) said.get("groups").get(name);
            one.put("epoch", description.groupEpoch().orElse(null));
            one.put("assignmentEpoch", description.targetAssignmentEpoch().orElse(null));
            description.members().forEach(member -> ((ObjectNode) one.get("members").get(member.consumerId()))
                .put("epoch", member.memberEpoch().orElse(null)));
        });
    }

    static List<String> names(JsonNode groups) {
        List<String> names = new ArrayList<>();
        groups.fieldNames().forEachRemaining(names::add);
        return names;
    }
}
