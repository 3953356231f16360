"""The coordinator on ZooKeeper, through kazoo. It needs the extra ``zookeeper``."""
