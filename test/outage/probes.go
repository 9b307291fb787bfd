package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/test/outage/probe"
)

const (
	callProbers, podProbers = 3, 3
	callEvery, podEvery     = 100 * time.Millisecond, 200 * time.Millisecond
	callTimeout             = 2 * time.Second
	// podTimeout is longer than any fault should last.
	podTimeout = 3 * time.Minute
	podPoll    = 200 * time.Millisecond
)

// user is a client of the deployment with its own connections.
type user struct {
	clients   kubernetes.Interface
	transport *http.Transport
}

// newUser creates a client with its own connections, so that a connection cut by a fault does not
// count against a deployment that others can use.
func newUser(config *rest.Config) (*user, error) {
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true, TLSHandshakeTimeout: callTimeout}
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: config.Host, Transport: transport, QPS: -1})
	return &user{clients, transport}, err
}

// again makes the next call use a new connection if this one failed.
func (u *user) again(err error) error {
	if err != nil {
		u.transport.CloseIdleConnections()
	}
	return err
}

// probes try a write, a read, and a new pod with everything that makes it run.
type probes struct{ write, read, pod *probe.Probe }

func newProbes(config *rest.Config, namespace string, template corev1.PodTemplateSpec) (*probes, error) {
	var users []*user
	for range 2*callProbers + podProbers {
		u, err := newUser(config)
		if err != nil {
			return nil, err
		}
		users = append(users, u)
	}
	return &probes{
		write: &probe.Probe{Name: "write", Every: callEvery, Timeout: callTimeout, Probers: callProbers, Try: func(ctx context.Context, i int) error {
			u := users[i]
			return u.again(touch(ctx, u.clients, namespace, fmt.Sprint("probe-", i)))
		}},
		read: &probe.Probe{Name: "read", Every: callEvery, Timeout: callTimeout, Probers: callProbers, Try: func(ctx context.Context, i int) error {
			u := users[callProbers+i]
			_, err := u.clients.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return u.again(err)
		}},
		pod: &probe.Probe{Name: "pod", Every: podEvery, Timeout: podTimeout, Probers: podProbers, Try: func(ctx context.Context, i int) error {
			u := users[2*callProbers+i]
			return u.again(u.roll(ctx, namespace, fmt.Sprint("probe-", i), template))
		}},
	}, nil
}

func (p *probes) all() []*probe.Probe { return []*probe.Probe{p.write, p.read, p.pod} }

// touch writes to a config map, and creates it if it does not exist.
func touch(ctx context.Context, clients kubernetes.Interface, namespace, name string) error {
	maps := clients.CoreV1().ConfigMaps(namespace)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"at":"%d"}}}`, time.Now().UnixNano())
	_, err := maps.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	}
	return err
}

// roll changes the template of a Deployment and waits until its pod runs.
func (u *user) roll(ctx context.Context, namespace, name string, template corev1.PodTemplateSpec) error {
	deployments := u.clients.AppsV1().Deployments(namespace)
	one, labels := int32(1), map[string]string{"probe": name}
	template = *template.DeepCopy()
	template.Labels, template.Annotations = labels, map[string]string{"at": fmt.Sprint(time.Now().UnixNano())}
	if err := u.retry(ctx, func(ctx context.Context) error {
		patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"at":%q}}}}}`, template.Annotations["at"])
		_, err := deployments.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			_, err = deployments.Create(ctx, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
			}, metav1.CreateOptions{})
		}
		return err
	}); err != nil {
		return err
	}
	return u.retry(ctx, func(ctx context.Context) error {
		d, err := deployments.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != 1 || s.AvailableReplicas < 1 || s.Replicas != 1 {
			return fmt.Errorf("deployment %s has %d pods, %d new, %d available", name, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas)
		}
		return nil
	})
}

// retry calls until there is no error. Each call is short and, after a failure, uses a new
// connection.
func (u *user) retry(ctx context.Context, call func(ctx context.Context) error) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		err := u.again(call(bounded))
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(podPoll):
		}
	}
}
