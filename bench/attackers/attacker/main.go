// Command attacker sends hostile requests to apiservers, and serves the webhook that some of them need. Package
// attackers starts it, and defines the lines that they exchange. It ends when its input does.
package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/bench/attackers"
	"github.com/garboard/garboard/bench/sample"
)

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "attacker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var config attackers.Config
	if err := orders.Decode(&config); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	server := httptest.NewTLSServer(sample.BadAnswers())
	defer server.Close()
	requests, greeting := map[string]verb{}, attackers.Greeting{
		URL: server.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	for _, a := range attacks(config.Namespace) {
		requests[a.name], greeting.Attacks = a.do, append(greeting.Attacks, a.name)
	}
	requests[attackers.Ordinary] = writeOrdinary(config.Namespace)
	clients := map[string][]*rest.RESTClient{}
	for name, side := range config.Sides {
		var err error
		if clients[name], err = connect(ctx, side, config.Clients); err != nil {
			return err
		}
	}
	if err := answers.Encode(greeting); err != nil {
		return err
	}
	for {
		var order attackers.Order
		if err := orders.Decode(&order); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading an order: %w", err)
		}
		do, known := requests[order.Attack]
		if !known {
			return fmt.Errorf("there is no attack %q", order.Attack)
		}
		if err := answers.Encode(attack(ctx, order.Length, do, clients[order.Side])); err != nil {
			return err
		}
	}
}

// connect creates clients with established connections.
func connect(ctx context.Context, side attackers.Side, n int) ([]*rest.RESTClient, error) {
	all := make([]*rest.RESTClient, n)
	for i := range all {
		config := &rest.Config{
			Host: side.Host, BearerToken: side.Token, QPS: -1, APIPath: "/api",
			TLSClientConfig: rest.TLSClientConfig{CAData: side.CA, CertData: side.Cert, KeyData: side.Key},
			ContentConfig: rest.ContentConfig{
				GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
				ContentType: jsonType, AcceptContentTypes: jsonType,
			},
			// Clients with equal configurations share a transport; a distinct dialer prevents that.
			Dial: (&net.Dialer{Timeout: time.Minute}).DialContext,
		}
		client, err := rest.RESTClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("creating a client: %w", err)
		}
		if err := client.Get().AbsPath("/version").Do(ctx).Error(); err != nil {
			return nil, fmt.Errorf("connecting a client: %w", err)
		}
		all[i] = client
	}
	return all, nil
}

// attack has each client send requests, one at a time.
func attack(ctx context.Context, length time.Duration, do verb, clients []*rest.RESTClient) attackers.Outcome {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var mu sync.Mutex
	var outcome attackers.Outcome
	var ended sync.WaitGroup
	for i, client := range clients {
		ended.Go(func() {
			for n := i; ctx.Err() == nil; n += len(clients) {
				err := do(ctx, client, n)
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				if outcome.Sent++; err != nil && apierrors.ReasonForError(err) == "" {
					outcome.Error = fmt.Sprintf("a request got no answer of the API: %v", err)
				}
				mu.Unlock()
			}
		})
	}
	ended.Wait()
	return outcome
}
