{{/*
The alerts that are left out, as a JSON object of the reasons: those that are disabled, and those of
the absence of what this chart does not have Prometheus read, which would fire for ever.
*/}}
{{- define "garboard.rules.left" -}}
{{- $left := dict -}}
{{- range $component, $alert := dict "apiserver" "GarboardApiserverDown" "controllers" "GarboardControllersIdle" "scheduler" "GarboardSchedulerIdle" -}}
{{- if not (index $.Values $component).serviceMonitor.enabled -}}
{{- $_ := set $left $alert (printf "%s.serviceMonitor.enabled is false" $component) -}}
{{- end -}}
{{- end -}}
{{- range .Values.prometheusRule.disabledAlerts -}}
{{- $_ := set $left . "" -}}
{{- end -}}
{{ toJson $left }}
{{- end }}
