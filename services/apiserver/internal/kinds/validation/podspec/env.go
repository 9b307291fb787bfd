package podspec

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volumesource"
)

func env(list []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range list {
		at := path.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			for _, msg := range validation.IsRelaxedEnvVarName(v.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), v.Name, msg))
			}
		}
		errs = append(errs, envSource(v, at.Child("valueFrom"))...)
	}
	return errs
}

func envSource(v corev1.EnvVar, path *field.Path) field.ErrorList {
	from := v.ValueFrom
	if from == nil {
		return nil
	}
	var errs field.ErrorList
	count := 0
	if from.FieldRef != nil {
		count++
		errs = append(errs, volumesource.FieldRef(from.FieldRef, volumesource.EnvFields(), path.Child("fieldRef"))...)
	}
	if from.ResourceFieldRef != nil {
		count++
		errs = append(errs, volumesource.ResourceRef(from.ResourceFieldRef, false, path.Child("resourceFieldRef"))...)
	}
	if from.ConfigMapKeyRef != nil {
		count++
		errs = append(errs, keyRef(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, path.Child("configMapKeyRef"))...)
	}
	if from.SecretKeyRef != nil {
		count++
		errs = append(errs, keyRef(from.SecretKeyRef.Name, from.SecretKeyRef.Key, path.Child("secretKeyRef"))...)
	}
	if from.FileKeyRef != nil {
		count++
		errs = append(errs, fileKeyRef(from.FileKeyRef, path.Child("fileKeyRef"))...)
	}
	switch {
	case count == 0:
		errs = append(errs, field.Invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case v.Value != "":
		errs = append(errs, field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case count > 1:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func keyRef(name, key string, path *field.Path) field.ErrorList {
	errs := values.Invalid(path.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, false))
	if key == "" {
		return append(errs, field.Required(path.Child("key"), ""))
	}
	for _, msg := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path.Child("key"), key, msg))
	}
	return errs
}

func envFrom(list []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, source := range list {
		at := path.Index(i)
		if source.Prefix != "" {
			for _, msg := range validation.IsRelaxedEnvVarName(source.Prefix) {
				errs = append(errs, field.Invalid(at.Child("prefix"), source.Prefix, msg))
			}
		}
		count := 0
		if source.ConfigMapRef != nil {
			count++
			errs = append(errs, sourceName(source.ConfigMapRef.Name, at.Child("configMapRef", "name"))...)
		}
		if source.SecretRef != nil {
			count++
			errs = append(errs, sourceName(source.SecretRef.Name, at.Child("secretRef", "name"))...)
		}
		switch count {
		case 0:
			errs = append(errs, field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
		case 2:
			errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

// sourceName checks the name of a source of variables; it may be a name prefix.
func sourceName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return values.Invalid(path, name, apivalidation.NameIsDNSSubdomain(name, true))
}

// fileKeyRef checks a reference to a variable in a file of a volume.
func fileKeyRef(ref *corev1.FileKeySelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(child, value string, valid func(string, *field.Path) field.ErrorList) {
		if value == "" {
			errs = append(errs, field.Required(path.Child(child), ""))
			return
		}
		errs = append(errs, valid(value, path.Child(child))...)
	}
	check("key", ref.Key, func(key string, at *field.Path) field.ErrorList {
		return values.Invalid(at, key, validation.IsRelaxedEnvVarName(key))
	})
	check("volumeName", ref.VolumeName, volumesource.Label)
	check("path", ref.Path, volumesource.NoBacksteps)
	return errs
}

// fileVolumes checks that variables in files are in emptyDir volumes of the pod.
func fileVolumes(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	volumes := map[string]*corev1.Volume{}
	for i := range spec.Volumes {
		volumes[spec.Volumes[i].Name] = &spec.Volumes[i]
	}
	podtemplate.EachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		for i, v := range c.Env {
			if v.ValueFrom == nil || v.ValueFrom.FileKeyRef == nil {
				continue
			}
			name, at := v.ValueFrom.FileKeyRef.VolumeName, at.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			switch volume := volumes[name]; {
			case volume == nil:
				errs = append(errs, field.NotFound(at, name))
			case volume.EmptyDir == nil:
				errs = append(errs, field.Invalid(at, name, "referenced volume must be of type emptyDir"))
			}
		}
	})
	return errs
}
