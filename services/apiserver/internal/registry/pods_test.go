package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/binding"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

func TestPodIsCreatedAsKubernetesCreatesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := newPod("web")
	pod.UID, pod.Generation = "chosen", 7
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}}
	got := create(w, "default", pod)

	if got.UID == "" || got.UID == "chosen" || got.CreationTimestamp.IsZero() || got.Generation != 1 || got.ResourceVersion == "" || len(got.ManagedFields) != 1 || got.ManagedFields[0].FieldsV1 == nil {
		t.Errorf("the system's metadata is %+v", got.ObjectMeta)
	}
	spec := got.Spec
	if spec.ServiceAccountName != "default" || spec.DeprecatedServiceAccount != "default" || spec.SchedulerName != "default-scheduler" ||
		*spec.TerminationGracePeriodSeconds != 30 || !*spec.EnableServiceLinks || *spec.Priority != 0 ||
		*spec.PreemptionPolicy != corev1.PreemptLowerPriority || spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("the spec is %+v", spec)
	}
	if len(spec.Tolerations) != 2 || *spec.Tolerations[0].TolerationSeconds != 300 {
		t.Errorf("the tolerations are %+v", spec.Tolerations)
	}
	if len(spec.Volumes) != 1 || !strings.HasPrefix(spec.Volumes[0].Name, "kube-api-access-") || spec.Volumes[0].Projected == nil {
		t.Fatalf("the volumes are %+v", spec.Volumes)
	}
	token := spec.Volumes[0].Projected.Sources[0].ServiceAccountToken
	if *token.ExpirationSeconds != 3607 || spec.Containers[0].VolumeMounts[0].MountPath != "/var/run/secrets/kubernetes.io/serviceaccount" {
		t.Errorf("the token is %+v, mounted at %+v", token, spec.Containers[0].VolumeMounts)
	}
	if got.Status.Phase != corev1.PodPending || got.Status.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("the status is %+v", got.Status)
	}
}

func TestPodOfUnknownServiceAccountIsForbidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := newPod("web")
	pod.Spec.ServiceAccountName = "nobody"
	_, err := resource[*corev1.Pod](w).Create(t.Context(), "default", pod, metav1.CreateOptions{})
	want := `pods "web" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestPodDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pods := resource[*corev1.Pod](w)
	bind := func(name string) *corev1.Pod {
		create(w, "default", newPod(name))
		_, err := binding.Bind(t.Context(), pods, "default", name, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("binding: %v", err)
		}
		return get[*corev1.Pod](w, "default", name)
	}

	t.Run("unscheduled goes at once", func(t *testing.T) {
		create(w, "default", newPod("pending"))
		obj, gone, err := pods.Delete(t.Context(), "default", "pending", metav1.DeleteOptions{})
		if err != nil || !gone || obj.GetDeletionTimestamp() == nil {
			t.Errorf("deleted: %v, %v, %+v", gone, err, obj)
		}
	})
	t.Run("scheduled waits for its node", func(t *testing.T) {
		before := bind("running")
		obj, gone, err := pods.Delete(t.Context(), "default", "running", metav1.DeleteOptions{})
		if err != nil || gone || obj.GetDeletionTimestamp() == nil || *obj.GetDeletionGracePeriodSeconds() != 30 || obj.GetGeneration() != before.Generation+1 {
			t.Fatalf("deleted: %v, %v, %+v", gone, err, obj)
		}
		if until := time.Until(obj.GetDeletionTimestamp().Time); until <= 0 || until > 31*time.Second {
			t.Errorf("the pod has %v to go", until)
		}
		again, gone, err := pods.Delete(t.Context(), "default", "running", metav1.DeleteOptions{})
		if err != nil || gone || again.GetResourceVersion() != obj.GetResourceVersion() {
			t.Errorf("deleting again: %v, %v, %s", gone, err, again.GetResourceVersion())
		}
		five := int64(5)
		shorter, gone, err := pods.Delete(t.Context(), "default", "running", metav1.DeleteOptions{GracePeriodSeconds: &five})
		if err != nil || gone || *shorter.GetDeletionGracePeriodSeconds() != 5 || !shorter.GetDeletionTimestamp().Before(obj.GetDeletionTimestamp()) {
			t.Errorf("shortening: %v, %v, %+v", gone, err, shorter)
		}
		var now int64
		_, gone, err = pods.Delete(t.Context(), "default", "running", metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil || !gone {
			t.Errorf("the node's last delete: %v, %v", gone, err)
		}
	})
	t.Run("terminated goes at once", func(t *testing.T) {
		bind("done")
		if _, err := update(w, "default", "done", "status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }); err != nil {
			t.Fatal(err)
		}
		if _, gone, err := pods.Delete(t.Context(), "default", "done", metav1.DeleteOptions{}); err != nil || !gone {
			t.Errorf("deleted: %v, %v", gone, err)
		}
	})
}

func TestPodUpdateMayChangeLittle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := create(w, "default", newPod("web"))
	got, err := update(w, "default", "web", "", func(p *corev1.Pod) {
		p.Spec.Containers[0].Image = "nginx:1.16"
		p.Status.Phase = corev1.PodRunning
	})
	if err != nil || got.Spec.Containers[0].Image != "nginx:1.16" || got.Generation != 2 || got.Status.Phase != corev1.PodPending {
		t.Errorf("changing the image: %v, %+v", err, got)
	}
	_, err = update(w, "default", "web", "", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`") {
		t.Errorf("changing the network: %v", err)
	}
	got, err = update(w, "default", "web", "status", func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Spec.Containers[0].Image = "other"
		p.UID = before.UID
	})
	if err != nil || got.Status.Phase != corev1.PodRunning || got.Spec.Containers[0].Image != "nginx:1.16" || got.Generation != 2 {
		t.Errorf("changing the status: %v, %+v", err, got)
	}
	_, err = update(w, "default", "web", "nonsense", func(*corev1.Pod) {})
	if !apierrors.IsNotFound(err) {
		t.Errorf("an unknown subresource: %v", err)
	}
}

// TestPodThatAnotherRemovesFirst deletes a pod that has ended: the apiserver marks and removes it.
// The node agent, which sees the mark, may remove the pod in between.
func TestPodThatAnotherRemovesFirst(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(w *world, pod *corev1.Pod){
		"removed": func(w *world, pod *corev1.Pod) { w.Etcd.DeletePrefix(t, "/registry/pods/default/"+pod.Name) },
		"changed, then removed": func(w *world, pod *corev1.Pod) {
			if _, err := update(w, "default", pod.Name, "status", func(p *corev1.Pod) { p.Status.Message = "changed" }); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			pod := create(w, "default", newPod("p"))
			if _, err := update(w, "default", "p", "status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }); err != nil {
				t.Fatal(err)
			}
			removals := 0
			meddling := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if strings.Contains(fmt.Sprint(req), "request_delete_range") {
					if removals++; removals == 1 {
						between(w, pod)
					} else {
						w.Etcd.DeletePrefix(t, "/registry/pods/default/p")
					}
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			s, err := store.Open(t.Context(), store.Config{
				Servers: w.Etcd.Endpoints(), Prefix: "/registry", Table: w.Table,
				DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(meddling)},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			pods := resource[*corev1.Pod](w).On(s)
			obj, gone, err := pods.Delete(t.Context(), "default", "p", metav1.DeleteOptions{})
			if err != nil || !gone || obj.GetUID() != pod.UID {
				t.Errorf("deleting gave %v, gone %v, error %v", obj, gone, err)
			}
			if removals == 0 {
				t.Error("nothing was removed in between: the test proves nothing")
			}
			if _, _, err := pods.Delete(t.Context(), "default", "p", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("deleting it again: %v, want NotFound", err)
			}
		})
	}
}
