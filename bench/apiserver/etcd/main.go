// Command etcd runs one etcd server for the benchmarks of the apiserver, in a separate process so
// that its cost can be measured separately. It ends when its standard input does.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	dir := flag.String("dir", "", "data folder")
	listen := flag.String("listen", "http://127.0.0.1:0", "URL for clients")
	pprof := flag.Bool("pprof", false, "serve profiles at /debug/pprof")
	flag.Parse()
	if err := run(*dir, *listen, *pprof); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(dir, listen string, pprof bool) error {
	client, err := url.Parse(listen)
	if err != nil {
		return fmt.Errorf("parsing the URL for clients: %w", err)
	}
	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.EnablePprof = dir, "fatal", pprof
	config.QuotaBackendBytes = 8 << 30
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return fmt.Errorf("starting etcd: %w", err)
	}
	fmt.Printf("http://%s\n", server.Clients[0].Addr())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("reading standard input: %w", err)
	}
	return nil
}
