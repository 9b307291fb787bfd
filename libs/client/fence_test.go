package client_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fence"
)

func TestWritesCarryTheFence(t *testing.T) {
	f := fence.Fence{Namespace: "kube-system", Name: "shard-7", UID: "u", Holder: "host 1;ä", Transitions: 3}
	var mu sync.Mutex
	var headers []http.Header
	c, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		headers = append(headers, r.Header.Clone())
		mu.Unlock()
		if r.Method == http.MethodGet {
			answer(t, w, http.StatusOK, &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}})
			return
		}
		answer(t, w, http.StatusOK, pod("a"))
	})
	refused := 0
	ctx := fence.With(t.Context(), f, func() { refused++ })
	pods := client.Of[*corev1.Pod](c)
	for name, write := range map[string]func() error{
		"create": func() error { _, err := pods.Create(ctx, pod("a"), metav1.CreateOptions{}); return err },
		"update": func() error { _, err := pods.Update(ctx, pod("a"), metav1.UpdateOptions{}); return err },
		"status": func() error { _, err := pods.UpdateStatus(ctx, pod("a"), metav1.UpdateOptions{}); return err },
		"patch": func() error {
			_, err := pods.Patch(ctx, "ns", "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{}, "")
			return err
		},
		"delete": func() error { return pods.Delete(ctx, "ns", "a", metav1.DeleteOptions{}) },
		"deletecollection": func() error {
			return pods.DeleteCollection(ctx, "ns", metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		"binding": func() error {
			return pods.CreateSubresource(ctx, "ns", "a", "binding", &corev1.Binding{}, nil, metav1.CreateOptions{})
		},
	} {
		headers = nil
		if err := write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(headers) != 1 {
			t.Fatalf("%s: %d requests", name, len(headers))
		}
		got, err := fence.Parse(headers[0].Get(fence.Header))
		if err != nil || got != f {
			t.Errorf("%s carries %+v, %v", name, got, err)
		}
	}
	headers = nil
	if _, _, err := pods.List(ctx, "ns", metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := pods.Create(fence.Without(ctx), pod("a"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	for _, header := range headers {
		if header.Get(fence.Header) != "" {
			t.Error("a read, or a write without a fence, carries one")
		}
	}
	if refused != 0 {
		t.Errorf("notified of %d refusals", refused)
	}
}

// TestRefusalNotifiesTheOwner checks that the owner of the fence is notified of a refusal, and not of other
// conflicts.
func TestRefusalNotifiesTheOwner(t *testing.T) {
	f := fence.Fence{Namespace: "kube-system", Name: "kube-scheduler", UID: "u", Holder: "one"}
	now := f
	now.Holder, now.Transitions = "two", 1
	status := apierrors.NewConflict(corev1.Resource("pods"), "a", http.ErrBodyNotAllowed).Status()
	c, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		answer(t, w, http.StatusConflict, &status)
	})
	refused := 0
	ctx := fence.With(t.Context(), f, func() { refused++ })
	pods := client.Of[*corev1.Pod](c)
	if _, err := pods.Create(ctx, pod("a"), metav1.CreateOptions{}); !apierrors.IsConflict(err) || fence.IsLost(err) || refused != 0 {
		t.Errorf("got %v and %d refusals", err, refused)
	}
	var lost apierrors.APIStatus
	if !errors.As(fence.Lost(f, &now), &lost) {
		t.Fatal("not an API error")
	}
	status = lost.Status()
	for i, write := range []func() error{
		func() error { _, err := pods.Create(ctx, pod("a"), metav1.CreateOptions{}); return err },
		func() error { return pods.Delete(ctx, "ns", "a", metav1.DeleteOptions{}) },
	} {
		if err := write(); !fence.IsLost(err) || refused != i+1 {
			t.Errorf("got %v and %d refusals", err, refused)
		}
	}
}
