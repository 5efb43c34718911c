package main

// A dashboard, in the few words that ours need.
type dashboard struct {
	title, description string
	variables          []variable
	panels             []panel
}

// variable is one that the reader chooses from the answer to a query, all by default.
type variable struct{ name, query string }

type panel struct {
	kind, title, unit string
	queries           []query
}

type query struct{ expr, legend string }

// Kinds of panels and units, in Grafana's words.
const (
	stat  = "stat"
	lines = "timeseries"

	short     = "short"
	seconds   = "s"
	perSecond = "reqps"
)

// Grafana's grid has 24 columns: six numbers fit in a row, or two drawings.
const (
	columns                 = 24
	statWidth, statHeight   = 6, 4
	linesWidth, linesHeight = 12, 8
)

// object is a part of Grafana's model, version 39
// (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/).
type object = map[string]any

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

func (d dashboard) model(uid string) object {
	list := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}
	for _, v := range d.variables {
		list = append(list, object{
			"name": v.name, "type": "query", "datasource": datasource, "query": v.query, "refresh": 2,
			"includeAll": true, "multi": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
		})
	}
	return object{
		"uid": uid, "title": d.title, "description": d.description, "tags": []string{"slipway"}, "schemaVersion": 39, "editable": true,
		"refresh": "30s", "time": object{"from": "now-1h", "to": "now"}, "templating": object{"list": list}, "panels": d.layout(),
	}
}

// layout places the panels row by row.
func (d dashboard) layout() []object {
	var all []object
	x, y, height := 0, 0, 0
	for i, p := range d.panels {
		w, h := linesWidth, linesHeight
		if p.kind == stat {
			w, h = statWidth, statHeight
		}
		if x+w > columns || (height != 0 && h != height) {
			x, y = 0, y+height
		}
		height = h
		all = append(all, p.model(i+1, object{"x": x, "y": y, "w": w, "h": h}))
		x += w
	}
	return all
}

func (p panel) model(id int, position object) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": datasource, "expr": q.expr, "legendFormat": q.legend, "instant": p.kind == stat})
	}
	return object{
		"id": id, "type": p.kind, "title": p.title, "gridPos": position, "datasource": datasource, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": p.unit}, "overrides": []any{}},
	}
}
