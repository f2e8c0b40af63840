import java.io.FileOutputStream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** Runs Hadoop's resource manager and one node manager on free ports; clients find them by CONF/yarn-site.xml. */
public class Yarn {
    public static void main(String[] arguments) throws Exception {
        YarnConfiguration given = new YarnConfiguration();
        given.set(YarnConfiguration.RM_SCHEDULER, "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
        given.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 256);
        // By default YARN uses no disk that is nearly full.
        given.setBoolean(YarnConfiguration.NM_DISK_HEALTH_CHECK_ENABLE, false);
        MiniYARNCluster cluster = new MiniYARNCluster("changeledger", 1, 1, 1);
        cluster.init(given);
        cluster.start();
        try (FileOutputStream file = new FileOutputStream(arguments[0] + "/yarn-site.xml")) {
            cluster.getConfig().writeXml(file);
        }
        System.out.println("YARN started");
        Thread.currentThread().join();
    }
}
