package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/attackers"
	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/sample"
)

const (
	webhooksPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	trapsPath    = "/apis/" + sample.TrapGroup + "/v1/namespaces/" + namespace + "/traps"
	twinsPath    = "/apis/" + sample.TrapGroup + "/v1/namespaces/" + namespace + "/twins"
	// clients is the number of clients with hostile requests, each with one at a time.
	clients = 8
	// probes is the number of clients whose requests are timed, probePause the time between two of one client.
	probes     = 4
	probePause = 40 * time.Millisecond
	// window is how long requests are timed at a time.
	window = 10 * time.Second
)

// What others do while requests are timed. The ordinary ones write ConfigMaps, as fast as they can.
const (
	alone = iota
	ordinary
	attacked
	phases
)

// hostile measures how long requests for ConfigMaps take while others send hostile requests.
func (b *bench) hostile(ctx context.Context) error {
	probing, sides := map[*side][]*rest.RESTClient{}, map[string]attackers.Side{}
	err := b.eachSide(func(s *side) (err error) {
		if probing[s], err = s.Connect(ctx, probes, json); err != nil {
			return err
		}
		sides[s.name], err = attackers.SideOf(s.Config())
		return err
	})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-attackers-")
	if err != nil {
		return fmt.Errorf("making a folder for the attackers: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	others, err := attackers.Start(ctx, dir, attackers.Config{Namespace: namespace, Clients: clients, Sides: sides})
	if err != nil {
		return err
	}
	defer others.Close()
	if err := b.eachSide(func(s *side) error { return b.openAttacks(ctx, s, others.URL, others.CA) }); err != nil {
		return err
	}
	b.report.Table(fmt.Sprintf("%d clients with hostile requests: requests for ConfigMaps of %d others (%d times %v each)", clients, probes, b.repeats, window),
		"hostile requests", "apiserver", "of these per s", "99 % without them, ms",
		"with as many clients that write ConfigMaps", "with them", "ratio to without", "ratio to as many writers")
	for _, a := range others.Attacks {
		if err := b.timed(ctx, a, probing, others); err != nil {
			return fmt.Errorf("%s: %w", a, err)
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

// timed times requests without and with an attack, in turn, on all sides.
func (b *bench) timed(ctx context.Context, attack string, probing map[*side][]*rest.RESTClient, others *attackers.Attackers) error {
	times, sent := map[*side]*[phases][]time.Duration{}, map[*side]int{}
	for turn := range b.repeats {
		for i := range b.sides {
			s := b.sides[(i+turn)%len(b.sides)]
			if times[s] == nil {
				times[s] = &[phases][]time.Duration{}
			}
			for during, requests := range [phases]string{ordinary: attackers.Ordinary, attacked: attack} {
				n, took, err := b.attackDuring(ctx, requests, s, others, probing[s])
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
		row := []string{attack, s.name, cell(float64(sent[s]) / (float64(b.repeats) * window.Seconds()))}
		for during := range phases {
			row = append(row, cell(share(during)))
		}
		worst := share(attacked)
		b.report.Row(append(row, cell(worst/share(alone)), cell(worst/share(ordinary)))...)
	}
	return nil
}

// attackDuring times requests for one window, and returns how many requests of the others were answered meanwhile.
func (b *bench) attackDuring(
	ctx context.Context, attack string, s *side, others *attackers.Attackers, probing []*rest.RESTClient,
) (int, []time.Duration, error) {
	inner, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	var mu sync.Mutex
	var times []time.Duration
	var errs []error
	sent := 0
	var ended sync.WaitGroup
	if attack != "" {
		ended.Go(func() {
			n, err := others.Attack(attack, s.name, window)
			mu.Lock()
			defer mu.Unlock()
			sent, errs = n, append(errs, err)
		})
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
