// An application with the JDK's own servers, plaintext and TLS side by side, and no other library:
//
//     java Echo.java PLAIN_PORT TLS_PORT KEYSTORE PASSWORD
//
// GET /bytes/N answers with N bytes, POST with what was sent. Both servers share the handler and the kind
// of thread pool, so that TLS is all that differs between them.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.security.KeyStore;
import java.util.Arrays;
import java.util.concurrent.Executors;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

public final class Echo {
    private static final int BACKLOG = 1024;
    private static final int MAX_BYTES = 64 << 20;

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 4) {
            System.err.println("usage: java Echo.java PLAIN_PORT TLS_PORT KEYSTORE PASSWORD");
            System.exit(2);
        }
        // Without it the JDK's server waits for the client's acknowledgement in the middle of a response.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer plain = HttpServer.create(address(arguments[0]), BACKLOG);
        HttpsServer tls = HttpsServer.create(address(arguments[1]), BACKLOG);
        tls.setHttpsConfigurator(new HttpsConfigurator(context(arguments[2], arguments[3].toCharArray())));
        for (HttpServer server : new HttpServer[] {plain, tls}) {
            server.createContext("/", Echo::answer);
            server.setExecutor(Executors.newCachedThreadPool());
            server.start();
        }
        System.out.println("ready " + plain.getAddress().getPort() + " " + tls.getAddress().getPort());
    }

    private static InetSocketAddress address(String port) {
        return new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(port));
    }

    private static SSLContext context(String keystore, char[] password) throws Exception {
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream file = new FileInputStream(keystore)) {
            keys.load(file, password);
        }
        KeyManagerFactory managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        managers.init(keys, password);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(managers.getKeyManagers(), null, null);
        return context;
    }

    private static void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] received = exchange.getRequestBody().readNBytes(MAX_BYTES);
            byte[] body = body(exchange.getRequestURI().getPath(), received);
            int status = body == null ? 400 : 200;
            // -1 stands for no body at all; 0 would mean chunks.
            int length = body == null || body.length == 0 ? -1 : body.length;
            exchange.getResponseHeaders().set("Content-Type", "application/octet-stream");
            exchange.sendResponseHeaders(status, length);
            if (length > 0) {
                try (OutputStream out = exchange.getResponseBody()) {
                    out.write(body);
                }
            }
        }
    }

    /** The bytes to answer with; null for a length that is none. */
    private static byte[] body(String path, byte[] received) {
        if (!path.startsWith("/bytes/")) {
            return received;
        }
        try {
            int length = Integer.parseInt(path.substring("/bytes/".length()));
            if (length < 0 || length > MAX_BYTES) {
                return null;
            }
            byte[] bytes = new byte[length];
            Arrays.fill(bytes, (byte) 'x');
            return bytes;
        } catch (NumberFormatException notANumber) {
            return null;
        }
    }
}
