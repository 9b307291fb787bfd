{{- define "shop.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "shop.selector" -}}
app: {{ .Release.Name }}
role: {{ .Values.selector }}
{{- end -}}
