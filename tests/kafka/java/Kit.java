import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;

/**
 * One JVM that runs many of Kafka's tools and clients: every start of one costs a second.
 * A request is a line of JSON on standard input, {"do": …}; the answer is a line of JSON on standard output,
 * {"ok": …} or {"failed": text}. What tools print goes to the files that the request names.
 */
public final class Kit {
    static final ObjectMapper JSON = new ObjectMapper();

    /** Classes that exist only for newer releases; each may have a make and a truth of its own. */
    static final List<String> NEWER = List.of("Since40", "Since41", "Since42");

    /** Thrown where a tool would end the JVM. */
    private static final class Ended extends Error {
        final int code;

        Ended(int code) {
            super("exit " + code, null, false, false);
            this.code = code;
        }
    }

    /** A stream whose goal can change, as Scala's Console keeps the first System.out that it sees. */
    private static final class Switch extends OutputStream {
        private volatile OutputStream goal;

        Switch(OutputStream goal) {
            this.goal = goal;
        }

        @Override
        public void write(int b) throws java.io.IOException {
            goal.write(b);
        }

        @Override
        public void write(byte[] b, int from, int length) throws java.io.IOException {
            goal.write(b, from, length);
        }

        @Override
        public void flush() throws java.io.IOException {
            goal.flush();
        }
    }

    /** Have Kafka's class Exit throw Ended. Since 4.4 it is in the package internals. */
    private static void catchEnd(String setter) throws ReflectiveOperationException {
        String utils = "org.apache.kafka.common.utils.";
        Class<?> exit;
        try {
            exit = Class.forName(utils + "internals.Exit");
        } catch (ClassNotFoundException old) {
            exit = Class.forName(utils + "Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object thrower = Proxy.newProxyInstance(Kit.class.getClassLoader(), new Class<?>[] {procedure}, (proxy, method, values) -> {
            if (setter.equals("setExitProcedure") && values[1] != null) {
                System.err.println(values[1]);
            }
            throw new Ended((Integer) values[0]);
        });
        exit.getMethod(setter, procedure).invoke(null, thrower);
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        Switch out = new Switch(System.err);
        Switch err = new Switch(System.err);
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        OutputStream own = new FileOutputStream(java.io.FileDescriptor.err);
        out.goal = own;
        err.goal = own;
        catchEnd("setExitProcedure");
        catchEnd("setHaltProcedure");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                switch (request.get("do").asText()) {
                    case "tool" -> answer.put("ok", tool(request, out, err, own));
                    case "make" -> {
                        Make.run(request.get("servers").asText(), request.path("seed").asLong(0));
                        answer.put("ok", true);
                    }
                    case "load" -> {
                        Load.start(request.get("servers").asText(), request.get("prefix").asText());
                        answer.put("ok", true);
                    }
                    case "loaded" -> answer.set("ok", Load.figures());
                    case "unload" -> {
                        Load.stop();
                        answer.put("ok", true);
                    }
                    case "truth" -> answer.set("ok", Truth.of(
                        request.get("servers").asText(), request.path("records").asText(null),
                        request.path("readable").asBoolean(false)));
                    case "admin" -> answer.set("ok", Steps.run(request));
                    default -> throw new IllegalArgumentException("no such request: " + line);
                }
            } catch (Throwable problem) {
                problem.printStackTrace();
                answer.removeAll();
                answer.put("failed", problem.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int tool(JsonNode request, Switch out, Switch err, OutputStream own) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("args").forEach(argument -> arguments.add(argument.asText()));
        var main = Class.forName(request.get("class").asText()).getMethod("main", String[].class);
        try (OutputStream outFile = new BufferedOutputStream(new FileOutputStream(request.get("out").asText()), 1 << 16);
             OutputStream errFile = new FileOutputStream(request.get("err").asText())) {
            out.goal = outFile;
            err.goal = errFile;
            try {
                main.invoke(null, (Object) arguments.toArray(new String[0]));
                return 0;
            } catch (InvocationTargetException thrown) {
                if (thrown.getCause() instanceof Ended ended) {
                    return ended.code;
                }
                // As the JVM does with what main throws.
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                return 1;
            } finally {
                System.out.flush();
                System.err.flush();
                out.goal = own;
                err.goal = own;
            }
        }
    }
}
