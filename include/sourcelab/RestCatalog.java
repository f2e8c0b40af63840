import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.FileInputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.HTTPRequest;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.apache.iceberg.rest.RESTResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.ssl.SslContextFactory;

/**
 * Serves Iceberg's REST servlet in front of a JDBC catalog, for one user. PROPERTIES are those of the catalog,
 * with `port`, `token` and the members `vended.*`, which a client that loads a table receives for its files.
 * With `secret`, the user exchanges the secret for the token by OAuth2 (RFC 6749, 4.4). With `root` instead of
 * `uri` it serves many catalogs: the one at `/a~b/v1/...` is the SQLite file `a/b/catalog.db` below that folder.
 */
public class RestCatalog {
    private static final String VENDED = "vended.";
    private static final int MOST_OPENED = 8;
    private static final String USER = "lake";

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            given.load(file);
        }
        Map<String, String> properties = new HashMap<>();
        Map<String, String> vended = new HashMap<>();
        for (String name : given.stringPropertyNames()) {
            boolean isVended = name.startsWith(VENDED);
            (isVended ? vended : properties).put(isVended ? name.substring(VENDED.length()) : name, given.getProperty(name));
        }
        ServletContextHandler context = new ServletContextHandler();
        boolean isOne = properties.containsKey("uri");
        context.addServlet(new ServletHolder(isOne ? opened(properties, vended).servlet : new Many(properties, vended)), "/*");
        Server server = new Server();
        ServerConnector connector = properties.containsKey("keystore.path")
            ? new ServerConnector(server, shown(properties)) : new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(properties.get("port")));
        server.addConnector(connector);
        server.setHandler(context);
        server.start();
        System.out.println("REST catalog started");
        server.join();
    }

    private static SslContextFactory.Server shown(Map<String, String> properties) {
        SslContextFactory.Server identity = new SslContextFactory.Server();
        identity.setKeyStorePath(properties.get("keystore.path"));
        identity.setKeyStorePassword(properties.get("keystore.password"));
        return identity;
    }

    private static Opened opened(Map<String, String> properties, Map<String, String> vended) {
        Catalog catalog = CatalogUtil.buildIcebergCatalog("rest", properties, null);
        String token = properties.get("token");
        return new Opened(catalog, new Guarded(new Vending(catalog, vended), token, properties.get("secret")));
    }

    private static class Opened {
        private final Catalog catalog;
        private final Guarded servlet;

        Opened(Catalog catalog, Guarded servlet) {
            this.catalog = catalog;
            this.servlet = servlet;
        }

        void close() {
            try {
                ((AutoCloseable) catalog).close();
            } catch (Exception error) {
                System.out.println("a catalog could not be closed: " + error);
            }
        }
    }

    private static class Many extends HttpServlet {
        private final Map<String, String> properties;
        private final Map<String, String> vended;
        // The catalogs used last: each has its own connections to its file and to the store.
        private final Map<String, Opened> opened = new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Opened> eldest) {
                boolean isOld = size() > MOST_OPENED;
                if (isOld) {
                    eldest.getValue().close();
                }
                return isOld;
            }
        };

        Many(Map<String, String> properties, Map<String, String> vended) {
            this.properties = properties;
            this.vended = vended;
        }

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response)
                throws ServletException, IOException {
            String[] parts = request.getRequestURI().substring(1).split("/", 2);
            named(parts[0]).service(new HttpServletRequestWrapper(request) {
                @Override
                public String getRequestURI() {
                    return "/" + parts[1];
                }
            }, response);
        }

        private synchronized Guarded named(String name) {
            Opened known = opened.get(name);
            if (known == null) {
                Map<String, String> own = new HashMap<>(properties);
                String file = properties.get("root") + "/" + name.replace('~', '/') + "/catalog.db";
                own.put("uri", "jdbc:sqlite:" + file + "?journal_mode=WAL&busy_timeout=30000");
                known = opened(own, vended);
                opened.put(name, known);
            }
            return known.servlet;
        }
    }

    private static class Vending extends RESTCatalogAdapter {
        private final Map<String, String> vended;

        Vending(Catalog catalog, Map<String, String> vended) {
            super(catalog);
            this.vended = vended;
        }

        @Override
        protected <T extends RESTResponse> T execute(
                HTTPRequest request,
                Class<T> type,
                Consumer<ErrorResponse> onError,
                Consumer<Map<String, String>> onHeaders) {
            T response = super.execute(request, type, onError, onHeaders);
            if (response instanceof LoadTableResponse) {
                ((LoadTableResponse) response).config().putAll(vended);
            }
            return response;
        }
    }

    private static class Guarded extends RESTCatalogServlet {
        private final String token;
        private final String secret;

        Guarded(RESTCatalogAdapter adapter, String token, String secret) {
            super(adapter);
            this.token = token;
            this.secret = secret;
        }

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response)
                throws ServletException, IOException {
            response.setContentType("application/json");
            if (secret != null && request.getRequestURI().equals("/v1/oauth/tokens")) {
                give(request, response);
                return;
            }
            if (("Bearer " + token).equals(request.getHeader("Authorization"))) {
                super.service(request, response);
                return;
            }
            response.setStatus(401);
            response.getWriter().write(
                "{\"error\": {\"message\": \"wrong token\", \"type\": \"NotAuthorizedException\", \"code\": 401}}");
        }

        private void give(HttpServletRequest request, HttpServletResponse response) throws IOException {
            boolean isUser = "client_credentials".equals(request.getParameter("grant_type"))
                && USER.equals(request.getParameter("client_id")) && secret.equals(request.getParameter("client_secret"));
            response.setStatus(isUser ? 200 : 401);
            response.getWriter().write(isUser
                ? "{\"access_token\": \"" + token + "\", \"token_type\": \"bearer\", \"expires_in\": 3600, "
                    + "\"issued_token_type\": \"urn:ietf:params:oauth:token-type:access_token\"}"
                : "{\"error\": \"invalid_client\"}");
        }
    }
}
