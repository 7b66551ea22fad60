import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** What clients have since 4.1: where the partitions of share groups start, to be asked and set. */
public final class Since41 {
    private Since41() {
    }

    /** Share groups' offsets set by hand and taken away, a group deleted, and voters that can change. */
    public static void wild(Make make, Random random) throws Exception {
        make.admin.alterShareGroupOffsets("w-share-1", Map.of(new TopicPartition("plain", random.nextInt(3)), 5L,
            new TopicPartition("codec-gzip", 0), (long) random.nextInt(40))).all().get();
        if (random.nextInt(2) == 0) {
            make.admin.deleteShareGroupOffsets("w-share-1", Set.of("codec-gzip")).all().get();
        }
        if (random.nextInt(2) == 0) {
            make.admin.deleteShareGroups(List.of("w-share-2")).all().get();
        }
    }

    public static void truth(Admin admin, ObjectNode said) throws Exception {
        ObjectNode shares = (ObjectNode) said.get("shareGroups");
        Set<String> names = new java.util.TreeSet<>(Since40.names(shares));
        admin.describeShareGroups(names).all().get().forEach((name, description) -> {
            ObjectNode one = (ObjectNode) shares.get(name);
            one.put("epoch", description.groupEpoch()).put("assignmentEpoch", description.targetAssignmentEpoch());
            description.members().forEach(member -> ((ObjectNode) one.get("members").get(member.consumerId()))
                .put("epoch", member.memberEpoch()));
        });
        Map<String, Map<String, Long>> before = starts(admin, names);
        for (int same = 0, tries = 0; same < 3 && tries < 40; tries++) {
            Thread.sleep(500);
            Map<String, Map<String, Long>> now = starts(admin, names);
            same = now.equals(before) ? same + 1 : 0;
            before = now;
        }
        before.forEach((name, starts) -> {
            ObjectNode one = ((ObjectNode) shares.get(name)).putObject("starts");
            starts.forEach(one::put);
        });
    }

    /** Where the share partitions of groups begin. A coordinator that is still loading leaves some out. */
    private static Map<String, Map<String, Long>> starts(Admin admin, Set<String> names) throws Exception {
        Map<String, Map<String, Long>> found = new java.util.TreeMap<>();
        for (String name : names) {
            Map<String, Long> starts = new java.util.TreeMap<>();
            Object result = admin.listShareGroupOffsets(Map.of(name, new ListShareGroupOffsetsSpec()));
            Object future = result.getClass().getMethod("all").invoke(result);
            Map<?, ?> all = (Map<?, ?>) ((org.apache.kafka.common.KafkaFuture<?>) future).get();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) all.get(name)).entrySet()) {
                Object value = entry.getValue();
                if (value != null) {
                    long start = value instanceof OffsetAndMetadata offset ? offset.offset()
                        : (Long) value.getClass().getMethod("startOffset").invoke(value);
                    starts.put(entry.getKey().toString(), start);
                }
            }
            found.put(name, starts);
        }
        return found;
    }
}
