package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volumesource"
)

// volumes checks the volumes of a pod and returns the valid ones by name. podName is empty for
// templates: the names of claims created for ephemeral volumes begin with it.
func volumes(list []corev1.Volume, podName string, at *field.Path) (map[string]*corev1.Volume, field.ErrorList) {
	var errs field.ErrorList
	names := map[string]*corev1.Volume{}
	made := sets.New[string]()
	for i := range list {
		if podName != "" && list[i].Ephemeral != nil {
			made.Insert(podName + "-" + list[i].Name)
		}
	}
	for i := range list {
		v, p := &list[i], at.Index(i)
		wrong := volumesource.Volume(v, podName, p)
		if v.Name == "" {
			wrong = append(wrong, field.Required(p.Child("name"), ""))
		} else {
			wrong = append(wrong, values.Invalid(p.Child("name"), v.Name, validation.IsDNS1123Label(v.Name))...)
		}
		if names[v.Name] != nil {
			wrong = append(wrong, field.Duplicate(p.Child("name"), v.Name))
		}
		if len(wrong) == 0 {
			names[v.Name] = v
		}
		errs = append(errs, wrong...)
		if claim := v.PersistentVolumeClaim; claim != nil && made.Has(claim.ClaimName) {
			errs = append(errs, field.Invalid(p.Child("persistentVolumeClaim", "claimName"), claim.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return names, errs
}
