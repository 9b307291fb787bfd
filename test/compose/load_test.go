//go:build compose

package compose_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/test/e2e/plane"
)

// load creates objects continuously through the gateway, like any client-go program, and records
// which were acknowledged.
type load struct {
	client *kubernetes.Clientset
	stop   func() // ends the load and waits for it

	mu sync.Mutex
	// revisions has the acknowledged objects by name; unsure has the names whose outcome is
	// unknown.
	revisions map[string]string
	unsure    map[string]error
}

// begin starts the load; it ends with check, or with the test.
func begin(t *testing.T, kubeconfig string) *load {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Timeout = 30 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{client: client, revisions: map[string]string{}, unsure: map[string]error{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	l.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(l.stop)
	return l
}

func (l *load) run(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for number := 0; ; number++ {
		name := fmt.Sprintf("load-%06d", number)
		made, err := l.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"load": "yes"}}, Data: map[string]string{"name": name},
		}, metav1.CreateOptions{})
		l.note(name, made, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (l *load) note(name string, made *corev1.ConfigMap, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.unsure[name] = err
		return
	}
	l.revisions[name] = made.ResourceVersion
}

func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.revisions)
}

// more waits until count more writes have been acknowledged.
func (l *load) more(t *testing.T, count int) {
	t.Helper()
	from := l.acknowledged()
	plane.Eventually(t, fmt.Sprintf("%d more writes", count), func(context.Context) error {
		if have := l.acknowledged(); have < from+count {
			return fmt.Errorf("%d of %d were acknowledged", have-from, count)
		}
		return nil
	})
}

// check ends the load and reads everything. Each acknowledged object must exist as written; of the
// others, only those with an unknown outcome may exist.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.stop()
	var list *corev1.ConfigMapList
	plane.Eventually(t, "the list of the written objects", func(ctx context.Context) (err error) {
		list, err = l.client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{LabelSelector: "load=yes"})
		return err
	})
	there := map[string]string{}
	for _, one := range list.Items {
		there[one.Name] = one.ResourceVersion
		if one.Data["name"] != one.Name {
			t.Errorf("%s holds %v", one.Name, one.Data)
		}
	}
	for name, revision := range l.revisions {
		if there[name] != revision {
			t.Errorf("%s was acknowledged at %s but is at %q", name, revision, there[name])
		}
	}
	failures := map[string]int{}
	for name, err := range l.unsure {
		var status apierrors.APIStatus
		if _, made := there[name]; made && errors.As(err, &status) && !apierrors.IsAlreadyExists(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err) && !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s was refused but exists: %v", name, err)
		}
		failures[err.Error()]++
	}
	for name := range there {
		_, acknowledged := l.revisions[name]
		_, unsure := l.unsure[name]
		if !acknowledged && !unsure {
			t.Errorf("%s was never written", name)
		}
	}
	t.Logf("%d writes were acknowledged and exist, %d failed: %v", len(l.revisions), len(l.unsure), failures)
}
