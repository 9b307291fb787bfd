package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/sample"
)

const (
	webhooksPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	trapsPath    = "/apis/" + sample.TrapGroup + "/v1/namespaces/" + namespace + "/traps"
	twinsPath    = "/apis/" + sample.TrapGroup + "/v1/namespaces/" + namespace + "/twins"
	twinsInV2    = "/apis/" + sample.TrapGroup + "/v2/namespaces/" + namespace + "/twins"
	// attackers is the number of clients with hostile requests, each with one at a time.
	attackers = 8
	// probes is the number of clients whose requests are timed, probePause the time between two of one client.
	probes     = 4
	probePause = 40 * time.Millisecond
	// window is how long requests are timed at a time.
	window = 10 * time.Second
)

// attack is a kind of hostile request. Its failure is expected.
type attack struct {
	name string
	do   verb
}

// What others do while requests are timed. The ordinary ones write ConfigMaps, as fast as they can.
const (
	alone = iota
	ordinary
	attacked
	phases
)

// hostile measures how long requests for ConfigMaps take while others send hostile requests.
func (b *bench) hostile(ctx context.Context) error {
	server := httptest.NewTLSServer(sample.BadAnswers())
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	probing, attacking := map[*side][]*rest.RESTClient{}, map[*side][]*rest.RESTClient{}
	err := b.eachSide(func(s *side) (err error) {
		if probing[s], err = s.Connect(ctx, probes, json); err != nil {
			return err
		}
		if attacking[s], err = s.Connect(ctx, attackers, json); err != nil {
			return err
		}
		return b.openAttacks(ctx, s, server.URL, ca)
	})
	if err != nil {
		return err
	}
	b.report.Table(fmt.Sprintf("%d clients with hostile requests: requests for ConfigMaps of %d others (%d times %v each)", attackers, probes, b.repeats, window),
		"hostile requests", "apiserver", "of these per s", "99 % without them, ms",
		"with as many clients that write ConfigMaps", "with them", "ratio to without", "ratio to as many writers")
	for _, a := range attacks() {
		if err := b.timed(ctx, a, probing, attacking); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// openAttacks creates the kinds and the webhook that the attacks need.
func (b *bench) openAttacks(ctx context.Context, s *side, url string, ca []byte) error {
	g, err := b.openGadgets(ctx, s)
	if err != nil {
		return err
	}
	client := g.clients[0]
	for _, one := range []struct {
		path string
		body []byte
	}{{definitionsPath, sample.Traps()}, {definitionsPath, sample.Twins(url+"/convert", ca)}, {webhooksPath, sample.Webhook(url+"/admit", ca)}} {
		if err := ignore(post(ctx, client, one.path, one.body), apierrors.IsAlreadyExists); err != nil {
			return err
		}
	}
	for _, path := range []string{trapsPath, twinsPath} {
		err := until(ctx, pollPause, func() (bool, error) {
			err := client.Get().AbsPath(path).Do(ctx).Error()
			return err == nil, ignore(err, apierrors.IsNotFound)
		})
		if err != nil {
			return fmt.Errorf("waiting until %s is served: %w", path, err)
		}
	}
	for n := range 10 {
		err := post(ctx, client, twinsPath, sample.Twin(namespace, "twin-"+strconv.Itoa(n)))
		if err := ignore(err, apierrors.IsAlreadyExists); err != nil {
			return err
		}
	}
	return nil
}

// attacks returns the kinds of hostile requests.
func attacks() []attack {
	rules, deep := sample.Rules(100), slices.Concat([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "data": `), bytes.Repeat([]byte("["), 2<<20))
	return []attack{
		{"definitions with 100 costly rules", func(ctx context.Context, client *rest.RESTClient, _ int) error {
			return post(ctx, client, definitionsPath, rules)
		}},
		{"objects with a rule at its limit", func(ctx context.Context, client *rest.RESTClient, n int) error {
			return request(client.Post().AbsPath(trapsPath).Param("dryRun", "All"), sample.Trap(namespace, "trap-"+strconv.Itoa(n))).Do(ctx).Error()
		}},
		{"webhook that is slow or answers garbage", func(ctx context.Context, client *rest.RESTClient, n int) error {
			return post(ctx, client, gadgetsPath, sample.Gadget(namespace, "hostile-"+strconv.Itoa(n), n, "", "new"))
		}},
		{"conversion webhook that is slow or answers garbage", func(ctx context.Context, client *rest.RESTClient, _ int) error {
			return client.Get().AbsPath(twinsInV2).Do(ctx).Error()
		}},
		{"bodies nested 2 million deep", func(ctx context.Context, client *rest.RESTClient, _ int) error {
			return post(ctx, client, configMapsPath, deep)
		}},
	}
}

// timed times requests without and with an attack, in turn, on all sides.
func (b *bench) timed(ctx context.Context, a attack, probing, attacking map[*side][]*rest.RESTClient) error {
	times, sent := map[*side]*[phases][]time.Duration{}, map[*side]int{}
	for turn := range b.repeats {
		for i := range b.sides {
			s := b.sides[(i+turn)%len(b.sides)]
			if times[s] == nil {
				times[s] = &[phases][]time.Duration{}
			}
			for during, busy := range [phases]verb{ordinary: writeOrdinary, attacked: a.do} {
				n, took, err := attackDuring(ctx, busy, probing[s], attacking[s])
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				times[s][during] = append(times[s][during], took...)
				if during == attacked {
					sent[s] += n
				}
			}
		}
	}
	for _, s := range b.sides {
		share := func(during int) float64 {
			return float64(measure.Share(times[s][during], 0.99)) / float64(time.Millisecond)
		}
		cell := func(v float64) string { return fmt.Sprintf("%.3g", v) }
		row := []string{a.name, s.name, cell(float64(sent[s]) / (float64(b.repeats) * window.Seconds()))}
		for during := range phases {
			row = append(row, cell(share(during)))
		}
		worst := share(attacked)
		b.report.Row(append(row, cell(worst/share(alone)), cell(worst/share(ordinary)))...)
	}
	return nil
}

// writeOrdinary writes a ConfigMap that is none of the timed requests'.
func writeOrdinary(ctx context.Context, client *rest.RESTClient, n int) error {
	return writeConfigMap(ctx, client, 1000+n%800)
}

// attackDuring times requests for one window, and returns how many requests of the others were answered meanwhile.
func attackDuring(ctx context.Context, busy verb, probing, attacking []*rest.RESTClient) (int, []time.Duration, error) {
	inner, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	var mu sync.Mutex
	var times []time.Duration
	var errs []error
	sent := 0
	var ended sync.WaitGroup
	if busy != nil {
		for i, client := range attacking {
			ended.Go(func() {
				for n := i; inner.Err() == nil; n += len(attacking) {
					if err := busy(inner, client, n); inner.Err() == nil && err != nil && apierrors.ReasonForError(err) == "" {
						mu.Lock()
						errs = append(errs, fmt.Errorf("a hostile request got no answer of the API: %w", err))
						mu.Unlock()
						return
					}
					mu.Lock()
					sent++
					mu.Unlock()
				}
			})
		}
	}
	for i, client := range probing {
		ended.Go(func() {
			tick := time.NewTicker(probePause)
			defer tick.Stop()
			for n := i; inner.Err() == nil; n += len(probing) {
				began := time.Now()
				err := writeConfigMap(ctx, client, n%100)
				mu.Lock()
				times, errs = append(times, time.Since(began)), append(errs, err)
				mu.Unlock()
				select {
				case <-inner.Done():
				case <-tick.C:
				}
			}
		})
	}
	ended.Wait()
	return sent, times, errors.Join(errs...)
}
