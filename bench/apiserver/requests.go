package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/sample"
	"github.com/garboard/garboard/bench/target"
)

const (
	namespace = "bench"
	protobuf  = "application/vnd.kubernetes.protobuf"
	json      = "application/json"
	// loaders is the number of clients that create pods outside the measurements.
	loaders = 16
)

// prepare creates the namespace, with no pods, and the service account that pods need where no
// controller creates it.
func (b *bench) prepare(ctx context.Context) error {
	client, err := b.target.Client(protobuf)
	if err != nil {
		return err
	}
	if err := makeNamespace(ctx, client); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}
	made := client.Post().Namespace(namespace).Resource("serviceaccounts").Body(account).Do(ctx).Error()
	if made != nil && !apierrors.IsAlreadyExists(made) {
		return fmt.Errorf("creating the service account: %w", made)
	}
	return b.deleteAll(ctx)
}

// makeNamespace creates the namespace unless it is there.
func makeNamespace(ctx context.Context, client *rest.RESTClient) error {
	err := client.Post().Resource("namespaces").Body(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}).Do(ctx).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the namespace %s: %w", namespace, err)
	}
	return nil
}

// clean removes what prepare and the measurements created.
func (b *bench) clean(ctx context.Context) error {
	if b.target.Own != nil {
		return nil // it is deleted with its data
	}
	if err := b.deleteAll(ctx); err != nil {
		return err
	}
	client, err := b.target.Client(protobuf)
	if err != nil {
		return err
	}
	return client.Delete().Resource("namespaces").Name(namespace).Do(ctx).Error()
}

func (b *bench) deleteAll(ctx context.Context) error {
	client, err := b.target.Client(protobuf)
	if err != nil {
		return err
	}
	err = client.Delete().Namespace(namespace).Resource("pods").Timeout(10*time.Minute).
		VersionedParams(&metav1.DeleteOptions{}, scheme.ParameterCodec).Do(ctx).Error()
	if err != nil {
		// The server's own timeout may interrupt it.
		return b.each(ctx, loaders, b.existing(ctx), remove)
	}
	return nil
}

func (b *bench) existing(ctx context.Context) int {
	client, err := b.target.Client(protobuf)
	if err != nil {
		return 0
	}
	var pods corev1.PodList
	if err := client.Get().Namespace(namespace).Resource("pods").Do(ctx).Into(&pods); err != nil {
		return 0
	}
	return len(pods.Items)
}

// verb is a request for pod number n.
type verb func(ctx context.Context, client *rest.RESTClient, n int) error

func podName(n int) string { return "pod-" + strconv.Itoa(n) }

func create(ctx context.Context, client *rest.RESTClient, n int) error {
	return client.Post().Namespace(namespace).Resource("pods").Body(sample.Pod(namespace, podName(n), n)).Do(ctx).Error()
}

func get(ctx context.Context, client *rest.RESTClient, n int) error {
	return client.Get().Namespace(namespace).Resource("pods").Name(podName(n)).Do(ctx).Error()
}

// update changes the status, as the pod's node does.
func update(ctx context.Context, client *rest.RESTClient, n int) error {
	pod := sample.Pod(namespace, podName(n), n)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodPending, Message: strconv.FormatInt(time.Now().UnixNano(), 10),
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Bench", LastTransitionTime: metav1.Now(),
		}},
	}
	return client.Put().Namespace(namespace).Resource("pods").Name(podName(n)).SubResource("status").Body(pod).Do(ctx).Error()
}

func remove(ctx context.Context, client *rest.RESTClient, n int) error {
	return client.Delete().Namespace(namespace).Resource("pods").Name(podName(n)).Body(&metav1.DeleteOptions{}).Do(ctx).Error()
}

// each makes requests for the pods 0 to n-1, from several clients at once.
func (b *bench) each(ctx context.Context, clients, n int, do verb) error {
	all, err := b.clientsFor(ctx, clients)
	if err != nil {
		return err
	}
	return spread(ctx, all, n, do)
}

// clientsFor creates clients with established connections.
func (b *bench) clientsFor(ctx context.Context, n int) ([]*rest.RESTClient, error) {
	return b.target.Connect(ctx, n, protobuf)
}

// spread distributes the numbers below n over the clients.
func spread(ctx context.Context, clients []*rest.RESTClient, n int, do verb) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for _, client := range clients {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(ctx, client, i); err != nil {
					return fmt.Errorf("a request for %s: %w", podName(i), err)
				}
			}
		})
	}
	return group.Wait()
}

// requestsPart measures create, get, update and delete.
func (b *bench) requestsPart(ctx context.Context) error {
	columns := append([]string{"pods", "clients"}, b.report.costColumns("ms of CPU")...)
	columns = append(columns, "requests/s", "median, ms", "99 %, ms")
	b.report.Table(fmt.Sprintf("Requests (%d of each, median of %d)", b.requests, b.repeats), columns...)
	verbs := []struct {
		name string
		do   verb
	}{{"create", create}, {"get", get}, {"update status", update}, {"delete", remove}}
	for _, clients := range b.clients {
		connected, err := b.clientsFor(ctx, clients)
		if err != nil {
			return err
		}
		costs, times := map[string][]target.Cost{}, map[string][]time.Duration{}
		for range b.repeats {
			for _, v := range verbs {
				lasted := make([]time.Duration, b.requests)
				timed := func(ctx context.Context, client *rest.RESTClient, n int) error {
					began := time.Now()
					err := v.do(ctx, client, n)
					lasted[n] = time.Since(began)
					return err
				}
				err := b.profile(ctx, fmt.Sprintf("%s-%d", v.name, clients), func() error {
					c, err := b.target.Measure(func() error { return spread(ctx, connected, b.requests, timed) })
					costs[v.name] = append(costs[v.name], c)
					return err
				})
				if err != nil {
					return err
				}
				times[v.name] = append(times[v.name], lasted...)
			}
		}
		for _, v := range verbs {
			var rates []float64
			for _, c := range costs[v.name] {
				rates = append(rates, float64(b.requests)/c.Took.Seconds())
			}
			slices.Sort(times[v.name])
			part := func(share float64) string {
				at := times[v.name][int(share*float64(len(times[v.name])-1))]
				return fmt.Sprintf("%.3g", float64(at)/float64(time.Millisecond))
			}
			cells := append([]string{v.name, strconv.Itoa(clients)}, b.report.costCells(costs[v.name], b.requests, time.Millisecond)...)
			b.report.Row(append(cells, fmt.Sprintf("%.0f", measure.Median(rates)), part(0.5), part(0.99))...)
		}
	}
	return nil
}

// fill creates pods until there are n, numbered from 0.
func (b *bench) fill(ctx context.Context, n int) error {
	return b.each(ctx, loaders, n, func(ctx context.Context, client *rest.RESTClient, i int) error {
		if err := create(ctx, client, i); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}
