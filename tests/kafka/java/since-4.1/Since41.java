import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/** What clients have since 4.1: where the partitions of share groups start. */
public final class Since41 {
    private Since41() {
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
        for (String name : names) {
            ObjectNode starts = ((ObjectNode) shares.get(name)).putObject("starts");
            Object result = admin.listShareGroupOffsets(Map.of(name, new ListShareGroupOffsetsSpec()))
                .getClass().getMethod("all")
                .invoke(admin.listShareGroupOffsets(Map.of(name, new ListShareGroupOffsetsSpec())));
            Map<?, ?> all = (Map<?, ?>) ((org.apache.kafka.common.KafkaFuture<?>) result).get();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) all.get(name)).entrySet()) {
                Object value = entry.getValue();
                if (value != null) {
                    long start = value instanceof OffsetAndMetadata offset ? offset.offset()
                        : (Long) value.getClass().getMethod("startOffset").invoke(value);
                    starts.put(entry.getKey().toString(), start);
                }
            }
        }
    }
}
