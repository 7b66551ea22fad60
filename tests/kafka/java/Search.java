import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Prints where this release's FileRecords finds each offset: FILE FIRST LAST gives a line "offset position" each. */
public final class Search {
    private Search() {
    }

    public static void main(String[] args) throws Exception {
        Class<?> records = records();
        Object file = records.getMethod("open", File.class).invoke(null, new File(args[0]));
        Method search = method(records);
        for (long offset = Long.parseLong(args[1]); offset <= Long.parseLong(args[2]); offset++) {
            String found;
            try {
                Object position = search.invoke(file, offset, 0);
                found = position == null ? "none" : String.valueOf(field(position, "position"));
            } catch (InvocationTargetException thrown) {
                found = "failed";
            }
            System.out.println(offset + " " + found);
        }
        ((AutoCloseable) file).close();
    }

    private static Class<?> records() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.record.internal.FileRecords");
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.kafka.common.record.FileRecords");
        }
    }

    private static Method method(Class<?> records) throws NoSuchMethodException {
        try {
            return records.getMethod("searchForOffsetFromPosition", long.class, int.class);
        } catch (NoSuchMethodException older) {
            return records.getMethod("searchForOffsetWithSize", long.class, int.class);
        }
    }

    private static Object field(Object from, String name) throws Exception {
        return from.getClass().getField(name).get(from);
    }
}
