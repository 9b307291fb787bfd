// Command relay is the shortest possible path from etcd to NATS, with which the path of the watch
// fabric is compared. It watches a prefix and publishes each value unchanged, on a subject that
// contains its revision and the time. It ends when its standard input does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/bus"
)

func main() {
	etcd := flag.String("etcd", "", "URL of etcd")
	nats := flag.String("nats", "", "URL of NATS")
	prefix := flag.String("prefix", "", "prefix to watch")
	subject := flag.String("subject", "", "subject to publish on")
	stream := flag.String("stream", "", "JetStream stream that stores the messages; none if empty")
	flag.Parse()
	if err := run(*etcd, *nats, *prefix, *subject, *stream); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func run(etcd, nats, prefix, subject, stream string) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	if err != nil {
		return fmt.Errorf("creating an etcd client: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := bus.Connect(ctx, bus.Config{URLs: []string{nats}, Name: "relay"})
	if err != nil {
		return err
	}
	defer to.Close()
	publish := to.Publish
	if stream != "" {
		log, err := to.OpenLog(ctx, bus.LogConfig{Stream: stream, Subjects: []string{subject + ".>"}})
		if err != nil {
			return err
		}
		defer log.Close()
		publish = func(_ context.Context, at string, data []byte) error {
			return log.PublishAsync(at, data, at, func(error) {})
		}
	}
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
			if err := publish(ctx, fmt.Sprintf("%s.%d.%d", subject, event.Kv.ModRevision, time.Now().UnixNano()), event.Kv.Value); err != nil {
				return err
			}
		}
	}
	return nil
}
