package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// componentPatience bounds how long etcd may take to answer.
const componentPatience = 5 * time.Second

// Leases reads the Leases by which components elect their leaders: a *registry.Resource.
type Leases interface {
	GetAt(ctx context.Context, namespace, name, resourceVersion string) (scheme.Object, error)
}

// Components returns the status of the plane's components under their Kubernetes names: for those
// that elect a leader, whether a leader renews the lease; for each etcd cluster, whether it
// answers.
func Components(ctx context.Context, leases Leases, clusters []*store.Store) []scheme.Object {
	ctx, cancel := context.WithTimeout(ctx, componentPatience)
	defer cancel()
	found := []scheme.Object{component("controller-manager", checkLeader(ctx, leases, "kube-controller-manager"))}
	for i, cluster := range clusters {
		_, err := cluster.Revision(ctx)
		found = append(found, component(fmt.Sprintf("etcd-%d", i), err))
	}
	return append(found, component("scheduler", checkLeader(ctx, leases, "kube-scheduler")))
}

// component returns a component's status, which is healthy unless err is set.
func component(name string, err error) *corev1.ComponentStatus {
	condition := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if err != nil {
		condition.Status, condition.Message = corev1.ConditionFalse, err.Error()
	}
	return &corev1.ComponentStatus{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Conditions: []corev1.ComponentCondition{condition},
	}
}

// checkLeader returns an error unless the holder of the named lease leads.
func checkLeader(ctx context.Context, leases Leases, name string) error {
	obj, err := leases.GetAt(ctx, metav1.NamespaceSystem, name, "0")
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("no leader so far: there is no lease %s/%s", metav1.NamespaceSystem, name)
	}
	if err != nil {
		return fmt.Errorf("reading the lease %s/%s: %w", metav1.NamespaceSystem, name, err)
	}
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return errors.New("no leader")
	}
	if end := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second); time.Now().After(end) {
		return fmt.Errorf("no leader: %s has not renewed the lease since %s",
			*lease.Spec.HolderIdentity, lease.Spec.RenewTime.UTC().Format(time.RFC3339))
	}
	return nil
}
