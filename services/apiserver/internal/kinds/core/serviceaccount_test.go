package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestServiceAccountNamesSecrets(t *testing.T) {
	s := ServiceAccount()
	account := func() *corev1.ServiceAccount {
		return &corev1.ServiceAccount{Secrets: []corev1.ObjectReference{{Kind: "Secret", Namespace: "other", Name: "key", UID: "1"}}}
	}
	want := []corev1.ObjectReference{{Name: "key"}}
	a := account()
	s.PrepareForCreate(a)
	if !slices.Equal(a.Secrets, want) {
		t.Errorf("new account: got secrets %+v", a.Secrets)
	}
	a = account()
	s.Update.Prepare(a, &corev1.ServiceAccount{})
	if !slices.Equal(a.Secrets, want) {
		t.Errorf("changed account: got secrets %+v", a.Secrets)
	}
}
