import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.StreamsGroupHeartbeatRequest;
import org.apache.kafka.common.requests.StreamsGroupHeartbeatResponse;

/**
 * What brokers have since 4.2: streams groups (in 4.1 only with unstable features, which change what a broker registers).
 * Their members are heartbeats of ours, as Kafka Streams itself would bring a native library of 60 MB.
 */
public final class Since42 {
    private Since42() {
    }

    public static void make(Make make) throws Exception {
        member(make.servers, "st-live", "streams-member-1", List.of("plain"), true, true);
        member(make.servers, "st-left", "streams-member-2", List.of("defaults"), false, true);
        make.admin.alterStreamsGroupOffsets("st-left",
            Map.of(new TopicPartition("defaults", 0), new OffsetAndMetadata(5))).all().get();
    }

    /** A topic without a policy of its own, and groups whose topologies have topics of their own and several members. */
    public static void wild(Make make, Random random) throws Exception {
        make.topic("wild-kept", 1, "cleanup.policy", "");
        try (KafkaProducer<byte[], byte[]> one = make.producer()) {
            for (int i = 0; i < 50; i++) {
                one.send(Make.record("wild-kept", 0, "k" + i, "kept for ever")).get();
            }
        }
        for (int number = 0; number < 3; number++) {
            List<String> topics = random.nextInt(2) == 0 ? List.of("plain", "txn") : List.of("busy");
            for (int member = random.nextInt(3); member >= 0; member--) {
                member(make.servers, "w-streams-" + number, "w-" + number + "-" + member, topics, random.nextInt(3) > 0,
                    false);
            }
        }
    }

    /** A member that has tasks in the end if it `owns`: where others are there, they may keep all. */
    private static void member(String servers, String group, String id, List<String> topics, boolean stay, boolean owns)
        throws Exception {
        String[] place = servers.split(":");
        try (Socket socket = new Socket(place[0], Integer.parseInt(place[1]))) {
            var topology = new StreamsGroupHeartbeatRequestData.Topology().setEpoch(1).setSubtopologies(List.of(
                new StreamsGroupHeartbeatRequestData.Subtopology().setSubtopologyId("0").setSourceTopics(topics)));
            StreamsGroupHeartbeatRequestData first = beat(group, id, 0).setTopology(topology)
                .setRebalanceTimeoutMs(60000).setProcessId("process-" + id).setActiveTasks(List.of())
                .setStandbyTasks(List.of()).setWarmupTasks(List.of()).setClientTags(List.of());
            StreamsGroupHeartbeatResponseData answer = send(socket, first, 1);
            int epoch = answer.memberEpoch();
            List<StreamsGroupHeartbeatRequestData.TaskIds> owned = new ArrayList<>();
            for (int i = 2; i < 40; i++) {
                if (answer.activeTasks() != null) {
                    owned.clear();
                    answer.activeTasks().forEach(task -> owned.add(new StreamsGroupHeartbeatRequestData.TaskIds()
                        .setSubtopologyId(task.subtopologyId()).setPartitions(task.partitions())));
                }
                if (i > 5 && (!owned.isEmpty() || !owns)) {
                    break;
                }
                Thread.sleep(200);
                answer = send(socket, beat(group, id, epoch).setActiveTasks(owned).setStandbyTasks(List.of())
                    .setWarmupTasks(List.of()), i);
                epoch = answer.memberEpoch();
            }
            if (owned.isEmpty() && owns) {
                throw new IllegalStateException("a streams member got no task");
            }
            if (!stay) {
                send(socket, beat(group, id, -1), 99);
            }
        }
    }

    private static StreamsGroupHeartbeatRequestData beat(String group, String id, int epoch) {
        return new StreamsGroupHeartbeatRequestData().setGroupId(group).setMemberId(id).setMemberEpoch(epoch);
    }

    private static StreamsGroupHeartbeatResponseData send(Socket socket, StreamsGroupHeartbeatRequestData data, int number)
        throws Exception {
        short version = 0;
        RequestHeader header = new RequestHeader(ApiKeys.STREAMS_GROUP_HEARTBEAT, version, "streams-client", number);
        ByteBuffer request = new StreamsGroupHeartbeatRequest.Builder(data).build(version).serializeWithHeader(header);
        DataOutputStream out = new DataOutputStream(socket.getOutputStream());
        out.writeInt(request.remaining());
        out.write(request.array(), request.arrayOffset() + request.position(), request.remaining());
        out.flush();
        DataInputStream in = new DataInputStream(socket.getInputStream());
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        var answer = ((StreamsGroupHeartbeatResponse) AbstractResponse.parseResponse(ByteBuffer.wrap(bytes), header)).data();
        if (answer.errorCode() != 0) {
            throw new IllegalStateException(Errors.forCode(answer.errorCode()) + " " + answer.errorMessage());
        }
        return answer;
    }

    public static void truth(Admin admin, ObjectNode said) throws Exception {
        List<String> streams = new ArrayList<>();
        said.get("listed").fields().forEachRemaining(entry -> {
            if (entry.getValue().get("type").asText().equals("streams")) {
                streams.add(entry.getKey());
            }
        });
        ObjectNode groups = said.putObject("streamsGroups");
        for (String name : streams) {
            ObjectNode one = groups.putObject(name);
            StreamsGroupDescription description;
            try {
                description = admin.describeStreamsGroups(List.of(name)).all().get().get(name);
            } catch (ExecutionException withoutTopology) {
                // Clients cannot describe a group whose last member has left.
                one.put("state", said.get("listed").get(name).get("state").asText()).putObject("members");
                continue;
            }
            one.put("state", description.groupState().toString()).put("epoch", description.groupEpoch());
            one.put("assignmentEpoch", description.targetAssignmentEpoch());
            ObjectNode members = one.putObject("members");
            description.members().forEach(member -> {
                ObjectNode tasks = members.putObject(member.memberId()).put("epoch", member.memberEpoch())
                    .put("client", member.clientId()).put("host", member.clientHost())
                    .put("instance", member.instanceId().orElse(null)).put("rack", member.rackId().orElse(null))
                    .putObject("tasks");
                member.assignment().activeTasks().forEach(task ->
                    task.partitions().forEach(tasks.withArray("/" + task.subtopologyId())::add));
            });
        }
    }
}
