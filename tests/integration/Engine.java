import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Debezium's engine, writing what it captures to Kafka: ENGINE_PROPERTIES BOOTSTRAP_SERVERS. */
public class Engine {
    public static void main(String[] arguments) throws Exception {
        Properties capture = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            capture.load(file);
        }
        Properties broker = new Properties();
        broker.put("bootstrap.servers", arguments[1]);
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(broker, text, text)) {
            DebeziumEngine.create(Json.class)
                .using(capture)
                .notifying(event ->
                    producer.send(new ProducerRecord<>(event.destination(), event.key(), event.value())))
                .build()
                .run();
        }
    }
}
