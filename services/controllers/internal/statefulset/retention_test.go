package statefulset

import (
	"slices"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func policy(deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: deleted, WhenScaled: scaled}
	}
}

const (
	retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

// TestRetention checks which owners a claim gets, for each policy and each state that it may be in.
func TestRetention(t *testing.T) {
	yes := true
	ref := func(kind, name, uid string, controller *bool) metav1.OwnerReference {
		version := "apps/v1"
		if kind == "Pod" {
			version = "v1"
		}
		return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: types.UID(uid), Controller: controller}
	}
	bySet, byPod := ref("StatefulSet", "web", "set", &yes), ref("Pod", "web-1", "pod", &yes)
	plainSet := ref("StatefulSet", "web", "set", nil)
	oldSet, oldPod := ref("StatefulSet", "web", "older", &yes), ref("Pod", "web-1", "older", &yes)
	other, friend := ref("StatefulSet", "other", "other", &yes), ref("ConfigMap", "friend", "friend", nil)
	refs := func(refs ...metav1.OwnerReference) []metav1.OwnerReference { return refs }
	for name, test := range map[string]struct {
		deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType
		down            bool
		have, want      []metav1.OwnerReference
	}{
		"kept, nobody":                {retain, retain, true, nil, nil},
		"kept, both":                  {retain, retain, false, refs(bySet, byPod), nil},
		"kept, another":               {retain, retain, false, refs(other), refs(other)},
		"with the set, nobody":        {remove, retain, false, nil, refs(bySet)},
		"with the set, right":         {remove, retain, true, refs(bySet), refs(bySet)},
		"with the set, the pod":       {remove, retain, true, refs(byPod), refs(bySet)},
		"with the set, not control":   {remove, retain, false, refs(plainSet), refs(bySet)},
		"with the set, a friend":      {remove, retain, false, refs(friend), refs(friend, bySet)},
		"with the set, another":       {remove, retain, false, refs(other), refs(other)},
		"with the set, both":          {remove, retain, false, refs(other, bySet), refs(other)},
		"with the set, an older set":  {remove, retain, false, refs(oldSet), refs(oldSet)},
		"scaled, in range":            {retain, remove, false, refs(bySet, byPod), nil},
		"scaled, down":                {retain, remove, true, nil, refs(byPod)},
		"scaled, down, an older pod":  {retain, remove, true, refs(oldPod), refs(oldPod)},
		"scaled, up again":            {retain, remove, false, refs(byPod), nil},
		"always, in range":            {remove, remove, false, nil, refs(bySet)},
		"always, down":                {remove, remove, true, refs(bySet), refs(byPod)},
		"always, in range, the pod's": {remove, remove, false, refs(byPod), refs(bySet)},
	} {
		s := set(1, policy(test.deleted, test.scaled))
		s.UID = "set"
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "pod"}}
		r := retention{
			set: s, pod: pod, setKind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), podKind: corev1.SchemeGroupVersion.WithKind("Pod"),
			scaledDown: test.down,
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: slices.Clone(test.have)}}
		kept := slices.Equal(namesOf(test.have), namesOf(test.want))
		if got := r.kept(claim); got != kept {
			t.Errorf("%s: kept is %v", name, got)
		}
		if !kept {
			r.own(claim)
			if got := namesOf(claim.OwnerReferences); !slices.Equal(got, namesOf(test.want)) {
				t.Errorf("%s: got owners %q, want %q", name, got, namesOf(test.want))
			}
			if !r.kept(claim) {
				t.Errorf("%s: what was done is not kept", name)
			}
		}
	}
}

func namesOf(refs []metav1.OwnerReference) []string {
	var names []string
	for _, ref := range refs {
		name := string(ref.UID)
		if ref.Controller != nil && *ref.Controller {
			name += " controls"
		}
		names = append(names, name)
	}
	return names
}

func owners(p *controltest.Plane, claim string) []string {
	var kinds []string
	for _, ref := range controltest.Get[*corev1.PersistentVolumeClaim](p, "default", claim).OwnerReferences {
		kinds = append(kinds, ref.Kind)
	}
	return kinds
}

// TestClaimsGoWithTheirPods checks the life of a claim that goes when its pod is no longer asked for.
func TestClaimsGoWithTheirPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		controltest.Create(p, set(2, claiming, parallel, policy(remove, remove)))
		expect(t, p, "at first", "web-0 v1, web-1 v1")
		if got := owners(p, "data-web-1"); !slices.Equal(got, []string{"StatefulSet"}) {
			t.Errorf("the claim belongs to %q", got)
		}
		scale(p, 1)
		expect(t, p, "scaled down", "web-0 v1, web-1 v1 ending")
		if got := owners(p, "data-web-1"); !slices.Equal(got, []string{"Pod"}) {
			t.Errorf("the claim of the pod that goes belongs to %q", got)
		}
		gone(p, 1)
		settle()
		scale(p, 2)
		expect(t, p, "scaled up before the claim is gone", "web-0 v1")
		p.Remove(controltest.Get[*corev1.PersistentVolumeClaim](p, "default", "data-web-1"))
		expect(t, p, "when it is gone", "web-0 v1, web-1 v1")
		change(p, policy(retain, retain))
		settle()
		if got := append(owners(p, "data-web-0"), owners(p, "data-web-1")...); len(got) > 0 {
			t.Errorf("claims that are kept belong to %q", got)
		}
	})
}

// TestClaims checks that missing claims of pending pods are made, and that a pod waits for a claim that is
// being deleted.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		ending := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "data-web-0", DeletionTimestamp: new(metav1.Now()), Finalizers: []string{"kubernetes.io/pvc-protection"},
		}}
		p.Load(ending)
		p.Start()
		controltest.Create(p, set(1, claiming))
		expect(t, p, "while the claim goes", "")
		if got := p.Events("FailedCreate"); len(got) == 0 || got[0] != "Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted" {
			t.Errorf("got Events %q", got)
		}
		p.Remove(controltest.Get[*corev1.PersistentVolumeClaim](p, "default", "data-web-0"))
		expect(t, p, "when it is gone", "web-0 v1")
		p.Remove(controltest.Get[*corev1.PersistentVolumeClaim](p, "default", "data-web-0"))
		settle()
		controltest.Get[*corev1.PersistentVolumeClaim](p, "default", "data-web-0")
	})
}
