import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.FileInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.HashMap;
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

/**
 * Iceberg's own REST servlet before a JDBC catalog, for one user: PROPERTIES of the catalog, with `port`, `token` and
 * the members `vended.*`, which whoever loads a table gets for its files.
 */
public class RestCatalog {
    private static final String VENDED = "vended.";

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
        Catalog catalog = CatalogUtil.buildIcebergCatalog("rest", properties, null);
        ServletContextHandler context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new Guarded(new Vending(catalog, vended), properties.get("token"))), "/*");
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(properties.get("port"))));
        server.setHandler(context);
        server.start();
        System.out.println("REST catalog started");
        server.join();
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
        private final String expected;

        Guarded(RESTCatalogAdapter adapter, String token) {
            super(adapter);
            this.expected = "Bearer " + token;
        }

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response)
                throws ServletException, IOException {
            if (expected.equals(request.getHeader("Authorization"))) {
                super.service(request, response);
                return;
            }
            response.setStatus(401);
            response.setContentType("application/json");
            response.getWriter().write(
                "{\"error\": {\"message\": \"wrong token\", \"type\": \"NotAuthorizedException\", \"code\": 401}}");
        }
    }
}
