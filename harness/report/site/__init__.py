"""The page of results, `results/site/index.html`: one file that needs no network and no server.

It holds every published number and every measured cell.

`vendor` holds the core of DataTables (MIT) as npm publishes it: `npm pack
datatables.net@3.1.5`. Its `package/js/dataTables.min.js` and `package/License.txt` are
kept as they are.
"""
