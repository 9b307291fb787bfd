package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestDaemonSetTemplateNumber(t *testing.T) {
	s := DaemonSet()
	d := kindtest.Sample[*appsv1.DaemonSet](t, s)
	number := func(d *appsv1.DaemonSet) string { return d.Annotations[appsv1.DeprecatedTemplateGeneration] }
	if number(d) != "1" {
		t.Fatalf("new template: got number %q", number(d))
	}
	changed := d.DeepCopy()
	changed.Annotations, changed.Spec.MinReadySeconds = nil, 5
	s.Update.Prepare(changed, d)
	if number(changed) != "1" {
		t.Errorf("same template: got number %q", number(changed))
	}
	changed.Spec.Template.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "x"}
	if got := s.Update.Warnings(changed, d); got != nil {
		t.Errorf("before the template gets its number: got warnings %q", got)
	}
	s.Update.Prepare(changed, d)
	if number(changed) != "2" {
		t.Errorf("next template: got number %q", number(changed))
	}
	if got := s.Update.Warnings(changed, d); len(got) != 1 {
		t.Errorf("next template: got warnings %q", got)
	}
	reported := changed.DeepCopy()
	reported.Annotations = nil
	if s.Subresources["status"].Prepare(reported, changed); number(reported) != "2" {
		t.Errorf("update of the status: got number %q", number(reported))
	}
}

func TestDefaultDaemonSet(t *testing.T) {
	d := &appsv1.DaemonSet{}
	defaultDaemonSet(d)
	if r := d.Spec.UpdateStrategy.RollingUpdate; r.MaxUnavailable.IntVal != 1 || r.MaxSurge.IntVal != 0 || *d.Spec.RevisionHistoryLimit != 10 {
		t.Errorf("got spec %+v", d.Spec)
	}
	d = &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}}}
	defaultDaemonSet(d)
	if d.Spec.UpdateStrategy.RollingUpdate != nil {
		t.Errorf("got spec %+v", d.Spec)
	}
	d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
	if defaultDaemonSet(d); d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.IntVal != 0 || d.Spec.UpdateStrategy.RollingUpdate.MaxSurge.IntVal != 0 {
		t.Errorf("a strategy that nothing reads: got %+v", d.Spec.UpdateStrategy.RollingUpdate)
	}
}

func TestDaemonSetGenerations(t *testing.T) {
	obj := kindtest.Sample[*appsv1.DaemonSet](t, DaemonSet())
	changed := obj.DeepCopy()
	changed.Spec.MinReadySeconds = 9
	kindtest.Generations(t, DaemonSet(), obj, changed)
}
