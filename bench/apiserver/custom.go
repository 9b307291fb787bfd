package main

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/sample"
	"github.com/garboard/garboard/bench/target"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	gadgetsPath     = "/apis/" + sample.GadgetGroup + "/v1/namespaces/" + namespace + "/gadgets"
	// writers is the number of clients of the measurements of custom resources.
	writers = 8
	// pollPause is the time between two looks at what is to come, startTimeout the time until it must be there.
	pollPause    = 5 * time.Millisecond
	startTimeout = 5 * time.Minute
)

// gadgets are the custom resources of a side: their versions, by number.
type gadgets struct {
	*side
	clients  []*rest.RESTClient
	versions []string
}

// custom measures custom resources: requests, lists and watches.
func (b *bench) custom(ctx context.Context) error {
	all := map[*side]*gadgets{}
	err := b.eachSide(func(s *side) (err error) {
		all[s], err = b.openGadgets(ctx, s)
		return err
	})
	if err != nil {
		return err
	}
	if err := b.customRequests(ctx, all); err != nil {
		return err
	}
	if err := b.customLists(ctx, all); err != nil {
		return err
	}
	return b.customWatches(ctx, all)
}

// openGadgets defines gadgets on a side, which gets the namespace too.
func (b *bench) openGadgets(ctx context.Context, s *side) (*gadgets, error) {
	clients, err := s.Connect(ctx, writers, json)
	if err != nil {
		return nil, err
	}
	if err := makeNamespace(ctx, clients[0]); err != nil {
		return nil, err
	}
	if err := post(ctx, clients[0], definitionsPath, []byte(sample.Gadgets)); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("defining gadgets: %w", err)
	}
	err = until(ctx, pollPause, func() (bool, error) {
		err := clients[0].Get().AbsPath(gadgetsPath).Do(ctx).Error()
		return err == nil, ignore(err, apierrors.IsNotFound)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until gadgets are served: %w", err)
	}
	return &gadgets{side: s, clients: clients, versions: make([]string, max(b.requests, b.listed, b.events))}, nil
}

func gadgetName(n int) string { return "gadget-" + strconv.Itoa(n) }

// create creates gadget number n.
func (g *gadgets) create(ctx context.Context, client *rest.RESTClient, n int) error {
	return g.keep(n, request(client.Post().AbsPath(gadgetsPath), sample.Gadget(namespace, gadgetName(n), n, "", "new")).Do(ctx))
}

// update replaces gadget number n by one that differs in its spec.
func (g *gadgets) update(ctx context.Context, client *rest.RESTClient, n int) error {
	mark := strconv.FormatInt(time.Now().UnixNano(), 10)
	body := sample.Gadget(namespace, gadgetName(n), n, g.versions[n], mark)
	return g.keep(n, request(client.Put().AbsPath(gadgetsPath, gadgetName(n)), body).Do(ctx))
}

// read reads gadget number n.
func (g *gadgets) read(ctx context.Context, client *rest.RESTClient, n int) error {
	return client.Get().AbsPath(gadgetsPath, gadgetName(n)).Do(ctx).Error()
}

// remove deletes gadget number n.
func (g *gadgets) remove(ctx context.Context, client *rest.RESTClient, n int) error {
	return client.Delete().AbsPath(gadgetsPath, gadgetName(n)).Do(ctx).Error()
}

// keep notes the version that a write has made.
func (g *gadgets) keep(n int, result rest.Result) error {
	data, err := result.Raw()
	if err != nil {
		return err
	}
	var written struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := stdjson.Unmarshal(data, &written); err != nil {
		return fmt.Errorf("reading the response to a write: %w", err)
	}
	g.versions[n] = written.Metadata.ResourceVersion
	return nil
}

// customRequests measures create, get, update and delete.
func (b *bench) customRequests(ctx context.Context, all map[*side]*gadgets) error {
	b.compareTable(fmt.Sprintf("Custom resources: %d requests by %d clients", b.requests, writers), "request", "ms of CPU")
	costs := map[string][][]target.Cost{}
	verbs := []struct {
		name string
		do   func(g *gadgets) verb
	}{
		{"create", func(g *gadgets) verb { return g.create }}, {"get", func(g *gadgets) verb { return g.read }},
		{"update", func(g *gadgets) verb { return g.update }}, {"delete", func(g *gadgets) verb { return g.remove }},
	}
	for turn := range b.repeats {
		for _, v := range verbs {
			one, err := b.once(turn, func(s *side) error { return spread(ctx, all[s].clients, b.requests, v.do(all[s])) })
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			costs[v.name] = appendEach(costs[v.name], one)
		}
	}
	for _, v := range verbs {
		b.compareRow(v.name, costs[v.name], b.requests, time.Millisecond)
	}
	if b.profiles == "" {
		return nil
	}
	for _, v := range verbs[:3] {
		err := b.eachSide(func(s *side) error {
			return b.during(ctx, s, "custom "+v.name, func() error { return spread(ctx, all[s].clients, len(all[s].versions), v.do(all[s])) })
		})
		if err != nil {
			return err
		}
	}
	return b.eachSide(func(s *side) error { return spread(ctx, all[s].clients, len(all[s].versions), all[s].remove) })
}

// customLists measures LIST.
func (b *bench) customLists(ctx context.Context, all map[*side]*gadgets) error {
	err := b.eachSide(func(s *side) error { return spread(ctx, all[s].clients, b.listed, all[s].create) })
	if err != nil {
		return err
	}
	b.compareTable(fmt.Sprintf("LIST of %d custom resources", b.listed), "form", "ms of CPU")
	for _, form := range []struct{ name, query, accept string }{
		{"JSON", "", json},
		{"resourceVersion 0", "resourceVersion=0", json},
		{"by 500", "limit=500", json},
		{"a table, as kubectl get asks for it", "", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"},
		{"metadata alone", "", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"},
	} {
		costs, err := b.profiled(ctx, "custom list "+form.name, func(s *side) error {
			for range listings {
				if err := readAll(ctx, all[s].clients[0], form.query, form.accept); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("listing, %s: %w", form.name, err)
		}
		b.compareRow(form.name, costs, listings, time.Millisecond)
	}
	return nil
}

// readAll reads a list, page by page.
func readAll(ctx context.Context, client *rest.RESTClient, query, accept string) error {
	token := ""
	for {
		get := client.Get().RequestURI(gadgetsPath+"?"+query).SetHeader("Accept", accept)
		if token != "" {
			get = get.Param("continue", token)
		}
		stream, err := get.Stream(ctx)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(stream)
		_ = stream.Close()
		if err != nil {
			return fmt.Errorf("reading a list: %w", err)
		}
		if query == "" || query == "resourceVersion=0" {
			return nil
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
		}
		if err := stdjson.Unmarshal(data, &page); err != nil {
			return fmt.Errorf("reading a page: %w", err)
		}
		if token = page.Metadata.Continue; token == "" {
			return nil
		}
	}
}

// customWatches measures changes while clients watch, the cost of the changes included.
func (b *bench) customWatches(ctx context.Context, all map[*side]*gadgets) error {
	b.compareTable(fmt.Sprintf("%d changes of watched custom resources by %d clients", b.events, writers), "watchers", "ms of CPU per change")
	for _, n := range b.watchers {
		running, stop := context.WithCancel(ctx)
		var readers sync.WaitGroup
		received := map[*side]*atomic.Int64{}
		err := b.eachSide(func(s *side) error {
			received[s] = &atomic.Int64{}
			return all[s].watch(running, n, &readers, received[s])
		})
		var costs [][]target.Cost
		if err == nil {
			costs, err = b.profiled(running, fmt.Sprintf("custom watch %d", n), func(s *side) error {
				want := received[s].Load() + int64(n*b.events)
				if err := spread(running, all[s].clients, b.events, all[s].update); err != nil {
					return err
				}
				return arrive(running, received[s], want)
			})
		}
		stop()
		readers.Wait()
		if err != nil {
			return err
		}
		b.compareRow(strconv.Itoa(n), costs, b.events, time.Millisecond)
	}
	return nil
}

// watch starts watches from now on, which count the events in received until ctx ends.
func (g *gadgets) watch(ctx context.Context, n int, readers *sync.WaitGroup, received *atomic.Int64) error {
	data, err := g.clients[0].Get().RequestURI(gadgetsPath + "?limit=1").Do(ctx).Raw()
	if err != nil {
		return err
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := stdjson.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	watchers, err := g.Connect(ctx, n, json)
	if err != nil {
		return err
	}
	for _, client := range watchers {
		stream, err := client.Get().RequestURI(gadgetsPath + "?watch=true&resourceVersion=" + list.Metadata.ResourceVersion).Stream(ctx)
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		readers.Go(func() {
			defer func() { _ = stream.Close() }()
			count(stream, json, received)
		})
	}
	return nil
}

// request completes a request with a body of JSON.
func request(r *rest.Request, body []byte) *rest.Request {
	return r.SetHeader("Content-Type", json).Body(body)
}

func post(ctx context.Context, client *rest.RESTClient, path string, body []byte) error {
	return request(client.Post().AbsPath(path), body).Do(ctx).Error()
}

// until calls done until it reports true or returns an error, at most for startTimeout.
func until(ctx context.Context, pause time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ignore returns an error unless it is of a kind.
func ignore(err error, kind func(error) bool) error {
	if err == nil || kind(err) {
		return nil
	}
	return err
}
