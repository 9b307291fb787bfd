package storage

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func newStorageClass() *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast", ResourceVersion: "1"}, Provisioner: "example.com/Disk", Parameters: map[string]string{"a": ""}}
	defaultStorageClass(c)
	return c
}

func TestStorageClass(t *testing.T) {
	topology := func(expressions ...corev1.TopologySelectorLabelRequirement) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: expressions}
	}
	for name, tc := range map[string]struct {
		change func(*storagev1.StorageClass)
		want   []string
	}{
		"fine":               {change: func(*storagev1.StorageClass) {}},
		"a bad name":         {change: func(c *storagev1.StorageClass) { c.Name = "A" }, want: []string{`metadata.name: Invalid value: "A": ` + badSubdomain}},
		"no provisioner":     {change: func(c *storagev1.StorageClass) { c.Provisioner = "" }, want: []string{"provisioner: Required value"}},
		"a bad provisioner":  {change: func(c *storagev1.StorageClass) { c.Provisioner = "a/b/c" }, want: []string{`provisioner: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`}},
		"a parameter's name": {change: func(c *storagev1.StorageClass) { c.Parameters[""] = "x" }, want: []string{`parameters: Invalid value: "": field can not be empty.`}},
		"too much":           {change: func(c *storagev1.StorageClass) { c.Parameters["b"] = strings.Repeat("x", 256<<10) }, want: []string{"parameters: Too long: may not be more than 262144 bytes"}},
		"an unknown policy":  {change: func(c *storagev1.StorageClass) { c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRecycle) }, want: []string{`reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"`}},
		"no mode":            {change: func(c *storagev1.StorageClass) { c.VolumeBindingMode = nil }, want: []string{"volumeBindingMode: Required value"}},
		"an unknown mode":    {change: func(c *storagev1.StorageClass) { c.VolumeBindingMode = new(storagev1.VolumeBindingMode("Later")) }, want: []string{`volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"`}},
		"topologies": {change: func(c *storagev1.StorageClass) {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{topology(corev1.TopologySelectorLabelRequirement{Key: "zone", Values: []string{"a", "b"}})}
		}},
		"an empty topology": {
			change: func(c *storagev1.StorageClass) { c.AllowedTopologies = []corev1.TopologySelectorTerm{topology()} },
			want:   []string{`allowedTopologies[0].matchLabelExpressions: Duplicate value: ""`},
		},
		"topologies in disarray": {
			change: func(c *storagev1.StorageClass) {
				same := topology(corev1.TopologySelectorLabelRequirement{Key: "zone", Values: []string{"a", "a"}}, corev1.TopologySelectorLabelRequirement{Key: "zone"})
				c.AllowedTopologies = []corev1.TopologySelectorTerm{same, same}
			},
			want: []string{
				`allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"`,
				`allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"`,
				"allowedTopologies[0].matchLabelExpressions[1].values: Required value",
				`allowedTopologies[1].matchLabelExpressions[0].values[1]: Duplicate value: "a"`,
				`allowedTopologies[1].matchLabelExpressions[1].key: Duplicate value: "zone"`,
				"allowedTopologies[1].matchLabelExpressions[1].values: Required value",
				`allowedTopologies[1].matchLabelExpressions: Duplicate value: ""`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newStorageClass()
			tc.change(c)
			errortest.Exactly(t, validateStorageClass(c), tc.want...)
		})
	}
	many := newStorageClass()
	for i := range 513 {
		many.Parameters[fmt.Sprint(i)] = "x"
	}
	errortest.Exactly(t, validateStorageClass(many), "parameters: Too long: may not be more than 512 bytes")
	changed := newStorageClass()
	changed.AllowVolumeExpansion, changed.MountOptions, changed.Labels = new(true), []string{"ro"}, map[string]string{"a": "b"}
	errortest.Exactly(t, validateStorageClassUpdate(changed, newStorageClass()))
	changed.Parameters, changed.Provisioner = nil, "example.com/other"
	changed.ReclaimPolicy, changed.VolumeBindingMode = new(corev1.PersistentVolumeReclaimRetain), new(storagev1.VolumeBindingWaitForFirstConsumer)
	errortest.Exactly(t, validateStorageClassUpdate(changed, newStorageClass()),
		"parameters: Invalid value: null: field is immutable",
		`provisioner: Invalid value: "example.com/other": field is immutable`,
		`reclaimPolicy: Invalid value: "Retain": field is immutable`,
		`volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable`)
}
