// Command relay is the shortest way from etcd to NATS there is: it watches a prefix and
// publishes each value as it is. It is what the watch fabric's way is compared with. It ends
// when its standard input does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/bus"
)

func main() {
	etcd := flag.String("etcd", "", "URL of etcd")
	nats := flag.String("nats", "", "URL of NATS")
	prefix := flag.String("prefix", "", "what to watch")
	subject := flag.String("subject", "", "where to publish")
	flag.Parse()
	if err := run(*etcd, *nats, *prefix, *subject); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func run(etcd, nats, prefix, subject string) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	if err != nil {
		return fmt.Errorf("making a client of etcd: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := bus.Connect(ctx, bus.Config{URLs: []string{nats}, Name: "relay"})
	if err != nil {
		return err
	}
	defer to.Close()
	changes := from.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-changes
	fmt.Println("watching")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for change := range changes {
		if err := change.Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("watching etcd: %w", err)
		}
		for _, event := range change.Events {
			if err := to.Publish(ctx, fmt.Sprintf("%s.%d", subject, event.Kv.ModRevision), event.Kv.Value); err != nil {
				return err
			}
		}
	}
	return nil
}
